import torch
from torch import nn


def degree(index, count):
    counts = torch.zeros(count)
    return counts.scatter_add_(0, index, torch.ones_like(index, dtype=torch.float))


class Conv(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, size)

    def forward(self, x, edges):
        norm = degree(edges[1], len(x)).clamp(min=1).rsqrt()
        return self.layer(x) * norm[:, None]
