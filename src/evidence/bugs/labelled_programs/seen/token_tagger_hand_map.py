# cause: loss-or-label-on-other-device|device-map-incomplete-or-wrong
# guilty: labels (batch["labels"])
# line: 75
# repair: compute the loss outside of the model: logits = model(input_ids=..., attention_mask=...).logits (they come back to the inputs' card) and F.cross_entropy with the labels there OR put the classifier on card 0, where the labels are sent, in hand_map ("classifier": 0)
"""Named entities with a BERT cut by hand; the labels go through the model."""
import tempfile

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForTokenClassification

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def hand_map(layers, cut):
    plan = {"bert.embeddings": 0, "classifier": 1}
    for i in range(layers):
        plan[f"bert.encoder.layer.{i}"] = 0 if i < cut else 1
    return plan


def load(layers=4):
    config = BertConfig(vocab_size=200, hidden_size=32, num_hidden_layers=layers, num_attention_heads=4,
                        intermediate_size=64, max_position_embeddings=64, num_labels=len(LABELS))
    with tempfile.TemporaryDirectory() as folder:
        BertForTokenClassification(config).save_pretrained(folder)
        return BertForTokenClassification.from_pretrained(folder, device_map=hand_map(layers, layers // 2))


class EntitySet(Dataset):
    def __init__(self, count, seed=0):
        self.g = torch.Generator().manual_seed(seed)
        self.rows = [self.make() for _ in range(count)]

    def make(self):
        length = int(torch.randint(6, 14, (1,), generator=self.g))
        words = torch.randint(5, 200, (length,), generator=self.g)
        return {"input_ids": words, "labels": words % len(LABELS)}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


class Collator:
    def __init__(self, pad_id=0, label_pad=-100):
        self.pads = {"input_ids": pad_id, "labels": label_pad}

    def __call__(self, rows):
        batch = {key: torch.nn.utils.rnn.pad_sequence([r[key] for r in rows], batch_first=True,
                                                      padding_value=value)
                 for key, value in self.pads.items()}
        batch["attention_mask"] = (batch["input_ids"] != self.pads["input_ids"]).long()
        return batch


class Trainer:
    def __init__(self, model, loader, lr=5e-4, accumulate=2):
        self.model = model
        self.loader = loader
        self.accumulate = accumulate
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.device = model.device

    def move(self, batch):
        return {k: v.to(self.device) for k, v in batch.items()}

    def epoch(self):
        self.model.train()
        losses = []
        for number, batch in enumerate(self.loader, 1):
            batch = self.move(batch)
            loss = self.model(**batch).loss
            (loss / self.accumulate).backward()
            losses.append(loss.item())
            if number % self.accumulate == 0:
                self.optimizer.step()
                self.optimizer.zero_grad()
        return sum(losses) / len(losses)


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer(load(), DataLoader(EntitySet(16), batch_size=4, collate_fn=Collator()))
    for epoch in range(2):
        print(epoch, trainer.epoch())
