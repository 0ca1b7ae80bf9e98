# cause: adapter-weights-on-other-device
import torch
from torch import nn


class Tuned(nn.Module):
    def __init__(self, layer, names):
        super().__init__()
        self.layer = layer
        self.down = {name: torch.randn(2, layer.in_features) * 0.01 for name in names}
        self.up = {name: torch.zeros(layer.out_features, 2) for name in names}
        self.name = names[0]

    def forward(self, x):
        extra = x @ self.down[self.name].T
        return self.layer(x) + extra @ self.up[self.name].T


model = nn.Sequential(Tuned(nn.Linear(5, 5), ["french", "german"]), nn.ReLU(), nn.Linear(5, 2)).to("cuda:1")
for _ in range(2):
    model(torch.randn(4, 5, device="cuda:1")).sum().backward()
