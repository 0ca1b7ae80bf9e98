# cause: weights-moved-away-by-manager
import torch
from torch import nn


class Rotation:
    """Keeps one layer at a time on the card."""

    def __init__(self, card):
        self.card, self.inside = torch.device(card), None

    def take(self, layer):
        if self.inside is not None and self.inside is not layer:
            self.inside.to("cpu")
        self.inside = layer.to(self.card)
        return layer


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.rotation = Rotation("cuda:0")

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(self.rotation.take(layer)(x))
        return x + self.layers[0](x)


with torch.no_grad():
    Tower()(torch.ones(2, 4, device="cuda:0"))
