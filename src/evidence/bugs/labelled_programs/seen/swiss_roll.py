# cause: tensor-created-on-wrong-device
# guilty: self.levels
"""2-D diffusion with a loss that is tracked per noise band."""
import math

import torch
from torch import nn


class NoiseBands:
    """Log-spaced bands; remembers a running loss for each of them."""

    def __init__(self, low=0.02, high=20.0, bands=8):
        self.levels = torch.exp(torch.linspace(math.log(low), math.log(high), bands - 1))
        self.running = [0.0] * bands

    def assign(self, sigma):
        return torch.searchsorted(self.levels, sigma.contiguous())

    def record(self, sigma, per_sample):
        for band, value in zip(self.assign(sigma).tolist(), per_sample.tolist()):
            self.running[band] = 0.9 * self.running[band] + 0.1 * value


class Denoiser(nn.Module):
    def __init__(self, hidden=64, data_std=0.5):
        super().__init__()
        self.data_std = data_std
        self.net = nn.Sequential(
            nn.Linear(3, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 2)
        )

    def forward(self, noisy, sigma):
        s = sigma[:, None]
        total = (s ** 2 + self.data_std ** 2).sqrt()
        raw = self.net(torch.cat([noisy / total, s.log() / 4], dim=1))
        return noisy * self.data_std ** 2 / total ** 2 + raw * s * self.data_std / total


def roll(n, device):
    t = 1.5 * math.pi * (1 + 2 * torch.rand(n, device=device))
    return torch.stack([t * t.cos(), t * t.sin()], dim=1) / 15


def main():
    torch.manual_seed(11)
    device = "cuda:1"
    model = Denoiser().to(device)
    bands = NoiseBands()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(20):
        clean = roll(128, device)
        sigma = torch.exp(torch.randn(128, device=device) * 1.2 - 1.2)
        noisy = clean + sigma[:, None] * torch.randn_like(clean)
        weight = (sigma ** 2 + 0.25) / (sigma * 0.5) ** 2
        per_sample = weight * (model(noisy, sigma) - clean).square().mean(dim=1)
        opt.zero_grad()
        per_sample.mean().backward()
        opt.step()
        bands.record(sigma, per_sample.detach())
    print([round(v, 3) for v in bands.running])


if __name__ == "__main__":
    main()
