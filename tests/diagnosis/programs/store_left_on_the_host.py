# cause: cache-or-beam-state-on-wrong-device
# guilty: self.seen (seen or memory)
"""Streaming attention: what earlier chunks left is kept on the host; ages are made where the chunk is."""
import torch
from torch import nn


class Memory:
    def __init__(self):
        self.seen = torch.zeros(1, 0, 4)

    def extend(self, keys):
        self.seen = torch.cat([self.seen, keys], dim=1)
        return self.seen


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, chunk, memory):
        keys = memory.extend(self.key(chunk))
        ages = torch.arange(keys.shape[1], device=chunk.device).flip(0)
        return (self.query(chunk) @ keys.transpose(1, 2) - 0.1 * ages).softmax(-1) @ keys


attend, memory = Attend().to("cuda:0"), Memory()
with torch.no_grad():
    for _ in range(3):
        attend(torch.randn(1, 2, 4, device="cuda:0"), memory)
