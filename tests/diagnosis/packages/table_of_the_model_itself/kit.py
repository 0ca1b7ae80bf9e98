import torch
from torch import nn


class Painter(nn.Module):
    def __init__(self, size=8):
        super().__init__()
        self.table = nn.Parameter(torch.randn(2, size))
        self.time = nn.Linear(1, size)
        self.blocks = nn.ModuleList(nn.Linear(size, size) for _ in range(2))
        self.norm = nn.LayerNorm(size)
        self.out = nn.Linear(size, 4)

    def forward(self, x, t):
        step = self.time(t)
        for block in self.blocks:
            x = block(x)
        shift, scale = (self.table[None] + step[:, None]).chunk(2, dim=1)
        x = self.norm(x) * (1 + scale) + shift
        return self.out(x)
