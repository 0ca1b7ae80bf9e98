# cause: tensor-created-on-wrong-device
# guilty: self.t
import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(4)


class Cosine:
    def __init__(self, steps=50):
        grid = torch.linspace(0, 1, steps + 1)
        f = torch.cos((grid + 0.008) / 1.008 * math.pi / 2) ** 2
        self.t = (f[1:] / f[0]).clamp(1e-4, 0.9999)
        self.steps = steps

    def corrupt(self, clean, noise, when):
        a = self.t[when].view(-1, 1)
        return a.sqrt() * clean + (1 - a).sqrt() * noise


class Denoiser(nn.Module):
    def __init__(self, dim=10, steps=50):
        super().__init__()
        self.when = nn.Embedding(steps, 8)
        self.body = nn.Sequential(nn.Linear(dim + 8, 32), nn.SiLU(), nn.Linear(32, dim))

    def forward(self, x, when):
        return self.body(torch.cat([x, self.when(when)], 1))


device = torch.device("cuda:1")
plan = Cosine()
model = Denoiser().to(device)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(4):
    clean = torch.randn(6, 10).to(device)
    noise = torch.randn_like(clean)
    when = torch.randint(0, plan.steps, (6,), device=device)
    guess = model(plan.corrupt(clean, noise, when), when)
    loss = F.mse_loss(guess, noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
