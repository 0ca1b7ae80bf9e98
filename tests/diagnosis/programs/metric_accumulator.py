# cause: metric-state-device|loss-or-label-on-other-device|tensor-created-on-wrong-device
import torch
from torch import nn


class Confusion:
    def __init__(self, n):
        self.table = torch.zeros(n, n, dtype=torch.long)

    def update(self, pred, target):
        index = target * self.table.size(0) + pred
        self.table += torch.bincount(index, minlength=self.table.numel()).view_as(self.table)


model = nn.Linear(8, 3).to("cuda:0")
metric = Confusion(3)
x = torch.randn(6, 8, device="cuda:0")
y = torch.randint(0, 3, (6,), device="cuda:0")
metric.update(model(x).argmax(-1), y)
