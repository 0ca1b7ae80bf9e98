# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: bank (self.feats, feats, memory.feats)
# line: 49
# repair: in CrossBatchMemory.__init__ take a device argument and allocate feats and labels there (device of the embeddings, model.devices[-1]) OR in CrossBatchMemory.get return self.feats[:n].to(device of the embeddings) and the labels likewise
"""Metric learning with a cross-batch memory (XBM) of past embeddings."""
import torch
import torch.nn as nn
import torch.nn.functional as F

LOSSES = {}


def register(name):
    def wrap(cls):
        LOSSES[name] = cls
        return cls
    return wrap


class CrossBatchMemory:
    def __init__(self, size, dim):
        self.size, self.ptr, self.full = size, 0, False
        self.feats = torch.zeros(size, dim).cuda()
        self.labels = torch.full((size,), -1).cuda()

    def __len__(self):
        return self.size if self.full else self.ptr

    def get(self):
        n = len(self)
        return self.feats[:n], self.labels[:n]

    def enqueue(self, feats, labels):
        n = feats.shape[0]
        if self.ptr + n > self.size:
            self.ptr, self.full = self.size - n, True
        self.feats[self.ptr:self.ptr + n] = feats.detach()
        self.labels[self.ptr:self.ptr + n] = labels
        self.ptr = (self.ptr + n) % self.size


@register("contrastive")
class ContrastiveLoss(nn.Module):
    def __init__(self, margin=0.5):
        super().__init__()
        self.margin = margin

    def forward(self, emb, labels, bank, bank_labels):
        sim = emb @ bank.t()
        same = labels[:, None] == bank_labels[None]
        pos = (1 - sim)[same].sum()
        neg = F.relu(sim - self.margin)[~same].sum()
        return (pos + neg) / emb.shape[0]


class SplitEmbedder(nn.Module):
    devices = ("cuda:0", "cuda:1")

    def __init__(self, dim=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU())
        self.neck = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, dim))
        self.stem.to(self.devices[0])
        self.neck.to(self.devices[1])

    def forward(self, images):
        x = self.stem(images.to(self.devices[0]))
        return F.normalize(self.neck(x.to(self.devices[1])), dim=-1)


class XBMTrainer:
    def __init__(self, model, loss="contrastive", memory=64, start=1):
        self.model, self.start = model, start
        self.criterion = LOSSES[loss]()
        self.memory = CrossBatchMemory(memory, 32)
        self.opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step(self, index, images, labels):
        emb = self.model(images)
        labels = labels.to(emb.device)
        loss = self.criterion(emb, labels, emb, labels)
        if index >= self.start:
            loss = loss + self.criterion(emb, labels, *self.memory.get())
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.memory.enqueue(emb, labels)
        return loss.item()


if __name__ == "__main__":
    trainer = XBMTrainer(SplitEmbedder())
    for i in range(4):
        print(trainer.step(i, torch.randn(8, 3, 16, 16), torch.randint(0, 4, (8,))))
