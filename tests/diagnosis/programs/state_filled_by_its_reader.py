# cause: cache-or-beam-state-on-wrong-device
import torch
from torch import nn


class Memory:
    def __init__(self, layers, device):
        self.rows = [torch.zeros(1, 8, 4, device=device) for _ in range(layers)]


class Mixer(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number, self.lin = number, nn.Linear(4, 4)

    def forward(self, x, memory, at):
        memory.rows[self.number][:, at : at + 1] = self.lin(x)
        seen = memory.rows[self.number][:, : at + 1]
        near = self.lin(x) @ seen.transpose(1, 2)
        return x + near @ seen


layers = [Mixer(i).to(f"cuda:{i}") for i in range(2)]
memory = Memory(2, "cuda:0")
with torch.no_grad():
    for at in range(2):
        x = torch.ones(1, 1, 4, device="cuda:0")
        for i, layer in enumerate(layers):
            x = layer(x.to(f"cuda:{i}"), memory, at)
