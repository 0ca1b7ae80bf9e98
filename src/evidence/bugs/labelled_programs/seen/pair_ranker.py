# cause: extra-input-on-wrong-device
# guilty: token_type_ids
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertForSequenceClassification

MAIN = ("input_ids", "attention_mask", "labels")


class Pairs(Dataset):
    def __init__(self, n=24, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.rows = [(torch.randint(3, 90, (int(torch.randint(3, 7, (1,), generator=g)),), generator=g),
                      torch.randint(3, 90, (int(torch.randint(3, 7, (1,), generator=g)),), generator=g))
                     for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        a, b = self.rows[i]
        ids = torch.cat([torch.tensor([1]), a, torch.tensor([2]), b, torch.tensor([2])])
        seg = torch.cat([torch.zeros(a.numel() + 2), torch.ones(b.numel() + 1)]).long()
        return ids, seg, int(a.sum() > b.sum())


def collate(rows):
    width = max(r[0].numel() for r in rows)
    pad = lambda t: torch.nn.functional.pad(t, (0, width - t.numel()))
    ids = torch.stack([pad(r[0]) for r in rows])
    return {
        "input_ids": ids,
        "attention_mask": (ids != 0).long(),
        "token_type_ids": torch.stack([pad(r[1]) for r in rows]),
        "labels": torch.tensor([r[2] for r in rows]),
    }


class Trainer:
    def __init__(self, model, device, lr=1e-3):
        self.model = model.to(device)
        self.device = device
        self.opt = torch.optim.AdamW(model.parameters(), lr)

    def prepare(self, batch):
        for key in batch:
            if key in MAIN:
                batch[key] = batch[key].to(self.device)
        return batch

    def fit(self, loader, epochs=1):
        self.model.train()
        for ep in range(epochs):
            for batch in loader:
                out = self.model(**self.prepare(batch))
                out.loss.backward()
                self.opt.step()
                self.opt.zero_grad()
            print("epoch", ep, "loss", out.loss.item())


if __name__ == "__main__":
    cfg = BertConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                     intermediate_size=48, max_position_embeddings=40, num_labels=2)
    trainer = Trainer(BertForSequenceClassification(cfg), torch.device("cuda"))
    trainer.fit(DataLoader(Pairs(), batch_size=8, shuffle=True, collate_fn=collate))
