# cause: tensor-created-on-wrong-device
# guilty: fresh
"""Replay for a robot: what the store keeps is on the GPU; the mask over it is made without a device."""
import torch


class Store:
    def __init__(self, slots, width):
        self.kept = torch.zeros(slots, width)
        self.at = 0

    def to(self, device):
        self.kept = self.kept.to(device)
        return self

    def add(self, row):
        self.kept[self.at % len(self.kept)] = row
        self.at += 1

    def newest(self, count):
        first = max(self.at - count, 0)
        return self.select(torch.arange(len(self.kept)) >= first)

    def select(self, fresh):
        weights = self.kept.norm(dim=-1) * fresh
        return weights.sum()


store = Store(6, 3).to("cuda:0")
for turn in range(4):
    store.add(torch.randn(3, device="cuda:0"))
    if turn:
        print(store.newest(2).item())
