# cause: optimizer-state-on-other-device|block-split-across-devices|tensor-created-on-wrong-device
# guilty: total (size)
"""Layer-wise clipping by hand: the squares of the gradients of two towers on two GPUs are summed up."""
import torch
from torch import nn


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Linear(6, 4).to("cuda:0")
        self.items = nn.Linear(9, 4).to("cuda:1")

    def forward(self, users, items):
        near = self.users(users)
        return (near * self.items(items).to(near.device)).sum(-1)


def clip(weights, most):
    total = None
    for weight in weights:
        size = (weight.grad ** 2).sum()
        total = size if total is None else total + size
    factor = most / (total.sqrt() + 1e-6)
    for weight in weights:
        weight.grad.mul_(factor.clamp(max=1.0).to(weight.device))


towers = Towers()
optimizer = torch.optim.SGD(towers.parameters(), lr=0.1)
for _ in range(2):
    score = towers(torch.randn(5, 6, device="cuda:0"), torch.randn(5, 9, device="cuda:1"))
    (-score.sigmoid().log()).mean().backward()
    clip(list(towers.parameters()), 1.0)
    optimizer.step()
    optimizer.zero_grad()
