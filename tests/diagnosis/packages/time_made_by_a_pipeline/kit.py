import torch
from torch import nn


class Painter(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.times = nn.Embedding(10, size)
        self.layer = nn.Linear(size, size)

    def forward(self, x, t):
        return self.layer(x + self.times(t))


class Pipeline:
    def __init__(self, painter):
        self.painter = painter

    @torch.no_grad()
    def __call__(self, noise, steps=2):
        x = noise
        for step in reversed(range(steps)):
            x = x - 0.1 * self.painter(x, torch.tensor([step]))
        return x
