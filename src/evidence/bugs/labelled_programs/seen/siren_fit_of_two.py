# cause: generator-or-default-device
# guilty: generator (loader or torch.randperm(n, generator=generator))
# Fit an image with a sine network; everything is made on the GPU by default.
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_default_device("cuda")


class Sine(nn.Module):
    def __init__(self, inp, out, omega=20.0, first=False):
        super().__init__()
        self.omega = omega
        self.lin = nn.Linear(inp, out)
        bound = 1 / inp if first else math.sqrt(6 / inp) / omega
        nn.init.uniform_(self.lin.weight, -bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.lin(x))


def picture(size):
    axis = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    rings = torch.cos(8 * (xx**2 + yy**2))
    return torch.stack([xx, yy], dim=-1).reshape(-1, 2), rings.reshape(-1, 1)


coords, values = picture(24)
loader = DataLoader(TensorDataset(coords, values), batch_size=96, shuffle=True)
net = nn.Sequential(Sine(2, 32, first=True), Sine(32, 32), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
print("pixels", len(coords), "weights", sum(p.numel() for p in net.parameters()))

for epoch in range(3):
    total = 0.0
    for xy, v in loader:
        loss = (net(xy) - v).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xy)
    print(f"epoch {epoch}: mse {total / len(coords):.5f}")

with torch.no_grad():
    psnr = -10 * torch.log10((net(coords) - values).pow(2).mean())
print("psnr", round(psnr.item(), 2))
