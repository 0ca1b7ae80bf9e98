import torch
from torch import nn


class Lazy(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.scale = None
        self.layer = nn.Linear(size, size)

    def forward(self, x):
        if self.scale is None:
            self.scale = nn.Parameter(torch.ones(x.shape[-1]))
        return self.layer(x) * self.scale
