# cause: adapter-weights-on-other-device
# guilty: self.inner
import torch
from torch import nn


class Bottleneck(nn.Module):
    """A small correction beside a frozen layer."""

    def __init__(self, layer, size):
        super().__init__()
        self.layer = layer
        self.inner = nn.Linear(layer.out_features, size)
        self.outer = nn.Linear(size, layer.out_features)

    def forward(self, x):
        y = self.layer(x)
        return y + self.outer(torch.relu(self.inner(y)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x):
        return x + self.mix(self.norm(x))


net = nn.Sequential(Block(), Block()).to("cuda:1")
for block in net:
    block.mix = Bottleneck(block.mix, 2)
print(net(torch.rand(3, 8, device="cuda:1")).shape)
