# cause: tensor-created-on-wrong-device|cache-or-beam-state-on-wrong-device
# guilty: basis (basis.T)
# line: 32
# repair: make the device part of the cache key: dct_basis(n, device) called with block.device (str(x.device)) OR in FrequencyGate.forward use basis.to(x.device)
"""Frequency gating of image rows; the cosine basis is cached over layers, which sit on two cards."""
import math
from functools import lru_cache

import torch
from torch import nn

HOME = "cuda:0"


@lru_cache(maxsize=None)
def dct_basis(n):
    k = torch.arange(n, device=HOME).float()
    basis = torch.cos(math.pi / n * (k[None, :] + 0.5) * k[:, None]) * math.sqrt(2.0 / n)
    basis[0] /= math.sqrt(2.0)
    return basis


class FrequencyGate(nn.Module):
    def __init__(self, channels, n):
        super().__init__()
        self.n = n
        self.gate = nn.Parameter(torch.ones(channels, 1, n))
        self.mix = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        basis = dct_basis(self.n)
        spectrum = torch.matmul(x, basis.T)
        return x + self.mix(torch.matmul(spectrum * self.gate, basis))


class GateNet(nn.Module):
    def __init__(self, channels=8, n=16, depth=4, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1)
        self.gates = nn.ModuleList([FrequencyGate(channels, n) for _ in range(depth)])
        self.head = nn.Linear(channels, classes)
        self.cards = None

    def over(self, first, second):
        self.cards = (first, second)
        half = len(self.gates) // 2
        for module in [self.stem, *self.gates[:half]]:
            module.to(first)
        for module in [*self.gates[half:], self.head]:
            module.to(second)
        return self

    def forward(self, x):
        h = self.stem(x.to(self.cards[0]))
        half = len(self.gates) // 2
        for gate in self.gates[:half]:
            h = gate(h)
        h = h.to(self.cards[1])
        for gate in self.gates[half:]:
            h = gate(h)
        return self.head(h.mean((2, 3)))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = GateNet().over(HOME, "cuda:1")
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    for step in range(3):
        x, y = torch.randn(8, 1, 16, 16), torch.randint(0, 5, (8,), device="cuda:1")
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())
