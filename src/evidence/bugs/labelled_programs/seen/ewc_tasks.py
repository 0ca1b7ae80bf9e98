# cause: loss-or-label-on-other-device|checkpoint-map-location|optimizer-state-on-other-device|extra-input-on-wrong-device
# guilty: fisher[n] (self.fisher[n] or self.anchor[n] or anchor[n])
"""Elastic weight consolidation: the first task's importance comes from disk."""
import os
import tempfile

import torch
from torch import nn


class EWC:
    def __init__(self, lam=100.0):
        self.lam = lam
        self.fisher, self.anchor = {}, {}

    def estimate(self, model, batches, loss_fn):
        fisher = {n: torch.zeros_like(p) for n, p in model.named_parameters()}
        for x, y in batches:
            model.zero_grad()
            loss_fn(model(x), y).backward()
            for n, p in model.named_parameters():
                fisher[n] += p.grad.detach() ** 2 / len(batches)
        self.fisher = fisher
        self.anchor = {n: p.detach().clone() for n, p in model.named_parameters()}

    def penalty(self, model):
        total = 0.0
        for n, p in model.named_parameters():
            total = total + (self.fisher[n] * (p - self.anchor[n]) ** 2).sum()
        return self.lam / 2 * total

    def save(self, path):
        torch.save({"fisher": self.fisher, "anchor": self.anchor}, path)

    def load(self, path):
        blob = torch.load(path, map_location="cpu")
        self.fisher, self.anchor = blob["fisher"], blob["anchor"]


def mlp():
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 4))


def task(device, n=4):
    return [(torch.randn(16, 20, device=device), torch.randint(0, 4, (16,), device=device)) for _ in range(n)]


device = torch.device("cuda")
loss_fn = nn.CrossEntropyLoss()
with tempfile.TemporaryDirectory() as d:
    first = mlp().to(device)
    ewc = EWC()
    ewc.estimate(first, task(device), loss_fn)
    ewc.save(os.path.join(d, "task1.pt"))

    second = mlp().to(device)
    second.load_state_dict(first.state_dict())
    ewc2 = EWC()
    ewc2.load(os.path.join(d, "task1.pt"))
    opt = torch.optim.SGD(second.parameters(), lr=0.01)
    for x, y in task(device, 2):
        loss = loss_fn(second(x), y) + ewc2.penalty(second)
        opt.zero_grad()
        loss.backward()
        opt.step()
