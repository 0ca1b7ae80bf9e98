# cause: hard-coded-device
# guilty: same
"""Contrastive pre-training of a sound encoder on two views of each clip."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 16, stride=8), nn.ReLU(), nn.Conv1d(width, width, 8, stride=4), nn.ReLU(),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(),
        )
        self.project = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 16))

    def forward(self, wave):
        return F.normalize(self.project(self.net(wave)), dim=1)


class PairLoss(nn.Module):
    def __init__(self, temperature=0.2):
        super().__init__()
        self.temperature = temperature

    def forward(self, a, b):
        z = torch.cat([a, b])
        n = len(a)
        sim = z @ z.t() / self.temperature
        same = torch.eye(2 * n, dtype=torch.bool, device="cuda")
        sim = sim.masked_fill(same, float("-inf"))
        partner = torch.arange(2 * n, device=z.device).roll(n)
        return F.cross_entropy(sim, partner)


def two_views(wave):
    gain = torch.rand(len(wave), 1, 1, device=wave.device) + 0.5
    noise = 0.02 * torch.randn_like(wave)
    return wave * gain, wave.roll(7, dims=-1) + noise


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--gpu", type=int, default=1)
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--batch", type=int, default=12)
    return p.parse_args()


if __name__ == "__main__":
    args = parse()
    device = torch.device(f"cuda:{args.gpu}")
    torch.manual_seed(2)
    encoder, criterion = Encoder().to(device), PairLoss().to(device)
    opt = torch.optim.AdamW(encoder.parameters(), lr=3e-3)
    for step in range(args.steps):
        wave = torch.randn(args.batch, 1, 800).to(device)
        left, right = two_views(wave)
        loss = criterion(encoder(left), encoder(right))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))
