# cause: tensor-created-on-wrong-device
# guilty: table (self.sqrt_ab, self.sqrt_one_minus_ab)
"""A diffusion model on 2-d points, noise predictor = MLP."""
import math

import torch
from torch import nn


class Schedule:
    def __init__(self, steps, device):
        self.steps, self.device = steps, device
        betas = torch.linspace(1e-4, 0.05, steps)
        ab = torch.cumprod(1 - betas, dim=0)
        self.sqrt_ab = ab.sqrt()
        self.sqrt_one_minus_ab = (1 - ab).sqrt()

    def pick(self, table, t):
        return table[t].view(-1, 1)

    def noised(self, x0, t, noise):
        return self.pick(self.sqrt_ab, t) * x0 + self.pick(self.sqrt_one_minus_ab, t) * noise


class Predictor(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.width = width
        self.net = nn.Sequential(nn.Linear(2 + width, 64), nn.SiLU(), nn.Linear(64, 2))

    def time_features(self, t):
        half = self.width // 2
        freqs = torch.exp(-math.log(1000.0) * torch.arange(half, device=t.device) / half)
        arg = t[:, None].float() * freqs[None]
        return torch.cat([arg.sin(), arg.cos()], dim=-1)

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time_features(t)], dim=-1))


def spiral(n, device):
    r = torch.rand(n, device=device)
    phi = 6 * math.pi * r
    return torch.stack([r * phi.cos(), r * phi.sin()], dim=1)


def main(device="cuda:1", steps=50):
    torch.manual_seed(0)
    schedule = Schedule(steps, device)
    model = Predictor().to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    for it in range(5):
        x0 = spiral(64, device)
        t = torch.randint(0, steps, (64,), device=device)
        eps = torch.randn_like(x0)
        xt = schedule.noised(x0, t, eps)
        loss = (model(xt, t) - eps).pow(2).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        print(it, round(loss.item(), 4))


main()
