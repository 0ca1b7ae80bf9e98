# cause: block-split-across-devices
# guilty: gate (kept)
"""The map gives two layers of one block to two GPUs: no layer of the script's is behind the model."""
import torch
from accelerate import dispatch_model
from torch import nn


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.value, self.gate = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, states):
        kept, gate = self.value(states), self.gate(states)
        return states + kept * gate.sigmoid()


class Stack(nn.Module):
    def __init__(self, width=8, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(Gated(width) for _ in range(depth))
        self.out = nn.Linear(width, 2)

    def forward(self, states):
        for layer in self.layers:
            states = layer(states)
        return self.out(states)


places = {"layers.0": 0, "layers.1.value": 0, "layers.1.gate": 1, "layers.2": 1, "out": 1}
model = dispatch_model(Stack().eval(), places)
print(model(torch.randn(3, 8)).shape)
