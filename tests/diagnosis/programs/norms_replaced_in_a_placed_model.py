# cause: module-left-on-other-device
# guilty: self.gain
"""Layers of a model that stands on two GPUs are replaced, and all new ones are put where the model begins."""

import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x / x.pow(2).mean(-1, keepdim=True).sqrt() * self.gain


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        return self.mix(self.norm(x))


class Tower(nn.Module):
    def __init__(self, width, gpus):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width).to(gpu) for gpu in gpus)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x.to(layer.mix.weight.device))
        return x


def modernize(tower):
    start = next(tower.parameters()).device
    for layer in tower.layers:
        layer.norm = Scale(layer.norm.normalized_shape[0]).to(start)


tower = Tower(8, ["cuda:0", "cuda:0", "cuda:1"])
modernize(tower)
print(tower(torch.rand(4, 8)).shape)
