# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: self.key.queue (queue, queue.clone)
# line: 50
# repair: in MomentumContrast.logits move the queue to q.device (self.key.queue.clone().to(q.device)) OR register the queue on the query side so that it goes to the card of the logits
"""MoCo-like pre-training; the key branch and its queue go to the second card."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


def conv_encoder(dim):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, dim))


class KeyBranch(nn.Module):
    def __init__(self, encoder, dim, size):
        super().__init__()
        self.encoder = encoder
        self.register_buffer("queue", F.normalize(torch.randn(dim, size), dim=0))
        self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def forward(self, image):
        return F.normalize(self.encoder(image), dim=1)

    @torch.no_grad()
    def enqueue(self, keys):
        start = int(self.pointer)
        self.queue[:, start:start + keys.size(0)] = keys.t().to(self.queue.device)
        self.pointer[0] = (start + keys.size(0)) % self.queue.size(1)


class MomentumContrast(nn.Module):
    def __init__(self, query, key, momentum=0.99, temperature=0.2):
        super().__init__()
        self.query, self.key = query, key
        self.m, self.t = momentum, temperature

    @torch.no_grad()
    def follow(self):
        for q, k in zip(self.query.parameters(), self.key.encoder.parameters()):
            k.mul_(self.m).add_(q.detach().to(k.device), alpha=1 - self.m)

    def logits(self, q, k):
        positive = (q * k).sum(1, keepdim=True)
        negative = torch.einsum("nc,ck->nk", q, self.key.queue.clone().detach())
        return torch.cat([positive, negative], 1) / self.t

    def forward(self, view_a, view_b):
        q = F.normalize(self.query(view_a), dim=1)
        self.follow()
        keys = self.key(view_b.to(self.key.queue.device)).to(q.device)
        logits = self.logits(q, keys)
        self.key.enqueue(keys)
        return logits, torch.zeros(q.size(0), dtype=torch.long, device=q.device)


def build(dim=16, queue=32):
    encoder = conv_encoder(dim)
    key = KeyBranch(copy.deepcopy(encoder), dim, queue)
    for p in key.parameters():
        p.requires_grad_(False)
    return MomentumContrast(encoder.to("cuda:0"), key.to("cuda:1"))


if __name__ == "__main__":
    torch.manual_seed(0)
    moco = build()
    optimizer = torch.optim.SGD(moco.query.parameters(), lr=0.03, momentum=0.9)
    for step in range(4):
        image = torch.rand(8, 3, 16, 16, device="cuda:0")
        logits, target = moco(image + 0.05 * torch.randn_like(image), image.flip(-1))
        loss = F.cross_entropy(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
