from functools import lru_cache

import torch
from torch import nn


@lru_cache
def window(size, device=None):
    return torch.hann_window(size)


class Spectrum(nn.Module):
    def __init__(self, size=8):
        super().__init__()
        self.size = size
        self.layer = nn.Linear(size, 2)

    def forward(self, x):
        frames = x.unfold(-1, self.size, self.size)
        return self.layer(frames * window(self.size))
