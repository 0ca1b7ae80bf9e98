# cause: trainer-chooses-data-parallel|data-parallel-replica-device
# guilty: self.log_prior
"""Classify reviews with a prior-corrected head, trained with the Hugging Face Trainer."""
import tempfile

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import RobertaConfig, RobertaModel, Trainer, TrainingArguments


class Reviews(Dataset):
    def __init__(self, n=24, width=10):
        gen = torch.Generator().manual_seed(0)
        self.ids = torch.randint(3, 60, (n, width), generator=gen)
        self.labels = (self.ids.sum(1) % 3).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones_like(self.ids[i]),
                "labels": self.labels[i]}


class PriorCorrected(nn.Module):
    def __init__(self, counts):
        super().__init__()
        cfg = RobertaConfig(vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
                            intermediate_size=48, max_position_embeddings=40)
        self.encoder = RobertaModel(cfg, add_pooling_layer=False)
        self.head = nn.Linear(32, len(counts))
        self.log_prior = (counts.float() / counts.sum()).log()

    def _apply(self, fn, recurse=True):
        module = super()._apply(fn, recurse)
        module.log_prior = fn(module.log_prior)
        return module

    def forward(self, input_ids, attention_mask=None, labels=None):
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        logits = self.head(hidden.mean(1))
        if labels is None:
            return {"logits": logits}
        adjusted = logits + self.log_prior
        return {"loss": nn.functional.cross_entropy(adjusted, labels), "logits": logits}


def main():
    torch.manual_seed(0)
    data = Reviews()
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=4, max_steps=3, learning_rate=1e-3,
        report_to="none", save_strategy="no", logging_strategy="no", disable_tqdm=True,
        remove_unused_columns=False)
    trainer = Trainer(model=PriorCorrected(torch.bincount(data.labels, minlength=3)), args=args,
                      train_dataset=data)
    print(trainer.train().training_loss)


if __name__ == "__main__":
    main()
