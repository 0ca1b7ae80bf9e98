# cause: data-parallel-replica-device
# guilty: page.words (page, pages.words)
# line: 63
# repair: let DataParallel see tensors: call model(pages.words, pages.boxes, pages.mask) (or pass a dict / NamedTuple) so that scatter cuts and moves them OR move the page batch to the device of the replica's weights and take its share in PageReader.forward
"""Reads scanned invoices: words and their boxes give a label per word; trained on both cards of the workstation."""
from dataclasses import dataclass, fields

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


@dataclass
class PageBatch:
    words: torch.Tensor
    boxes: torch.Tensor
    mask: torch.Tensor
    labels: torch.Tensor

    def to(self, device):
        return PageBatch(*(getattr(self, f.name).to(device) for f in fields(self)))


class Invoices(Dataset):
    def __init__(self, count=32, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.pages = []
        for _ in range(count):
            n = int(torch.randint(8, 20, (1,), generator=g))
            words = torch.randint(2, 200, (n,), generator=g)
            corner = torch.randint(0, 60, (n, 2), generator=g)
            self.pages.append((words, torch.cat([corner, corner + 3], 1), words % 5))

    def __len__(self):
        return len(self.pages)

    def __getitem__(self, i):
        return self.pages[i]


def collate(pages):
    longest = max(len(w) for w, _, _ in pages)
    batch = PageBatch(torch.zeros(len(pages), longest, dtype=torch.long),
                      torch.zeros(len(pages), longest, 4, dtype=torch.long),
                      torch.zeros(len(pages), longest, dtype=torch.bool),
                      torch.full((len(pages), longest), -100))
    for i, (words, boxes, labels) in enumerate(pages):
        n = len(words)
        batch.words[i, :n], batch.boxes[i, :n], batch.mask[i, :n], batch.labels[i, :n] = words, boxes, True, labels
    return batch


class PageReader(nn.Module):
    def __init__(self, vocab=200, dim=32, labels=5):
        super().__init__()
        self.word = nn.Embedding(vocab, dim)
        self.edge = nn.ModuleList(nn.Embedding(64, dim) for _ in range(4))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(dim, 4, 64, 0.1, batch_first=True) for _ in range(2))
        self.out = nn.Linear(dim, labels)

    def forward(self, page):
        x = self.word(page.words)
        for side, table in enumerate(self.edge):
            x = x + table(page.boxes[..., side])
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=~page.mask)
        logits = self.out(x)
        return F.cross_entropy(logits.flatten(0, 1), page.labels.flatten()).unsqueeze(0)


class Trainer:
    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = nn.DataParallel(model.to(self.device), device_ids=[0, 1])
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    def epoch(self, loader):
        self.model.train()
        total = 0.0
        for pages in loader:
            loss = self.model(pages.to(self.device)).mean()
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            total += loss.item()
        return total / len(loader)


def main():
    torch.manual_seed(0)
    loader = DataLoader(Invoices(), batch_size=8, shuffle=True, collate_fn=collate)
    trainer = Trainer(PageReader(), "cuda:0")
    for epoch in range(2):
        print("epoch", epoch, "loss", round(trainer.epoch(loader), 3))


if __name__ == "__main__":
    main()
