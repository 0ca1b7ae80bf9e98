# cause: extra-input-on-wrong-device
# guilty: temb (cond["temb"], self.film(temb), cond)
# line: 27
# repair: in StageRunner.forward move the conditions with the state: cond = {k: v.to(device) for k, v in cond.items()} before stage(x, **cond) OR in FiLMBlock.forward: self.film(temb.to(self.film.weight.device))
"""Denoising model cut into stages over two cards; sampling with a few Euler steps."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def time_features(t, dim):
    freqs = torch.exp(-math.log(1e4) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    angles = t[:, None] * freqs[None]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class FiLMBlock(nn.Module):
    def __init__(self, ch, tdim):
        super().__init__()
        self.norm = nn.GroupNorm(4, ch)
        self.conv = nn.Conv2d(ch, ch, 3, padding=1)
        self.film = nn.Linear(tdim, ch * 2)

    def forward(self, x, temb):
        scale, shift = self.film(temb)[:, :, None, None].chunk(2, dim=1)
        return x + self.conv(F.silu(self.norm(x) * (1 + scale) + shift))


class Stage(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x, temb):
        for block in self.blocks:
            x = block(x, temb)
        return x


class StageRunner(nn.Module):
    """Runs stages one after the other, each on its own card."""

    def __init__(self, stages, devices):
        super().__init__()
        self.devices = list(devices)
        self.stages = nn.ModuleList(s.to(d) for s, d in zip(stages, devices))

    def forward(self, x, **cond):
        for stage, device in zip(self.stages, self.devices):
            x = stage(x.to(device), **cond)
        return x


class Denoiser(nn.Module):
    def __init__(self, ch=16, tdim=32, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.tdim = tdim
        self.inp = nn.Conv2d(3, ch, 3, padding=1).to(devices[0])
        self.time = nn.Sequential(nn.Linear(tdim, tdim), nn.SiLU(), nn.Linear(tdim, tdim)).to(devices[0])
        self.body = StageRunner([Stage([FiLMBlock(ch, tdim) for _ in range(2)]) for _ in devices], devices)
        self.out = nn.Conv2d(ch, 3, 3, padding=1).to(devices[-1])

    def forward(self, x, t):
        temb = self.time(time_features(t, self.tdim))
        return self.out(self.body(self.inp(x), temb=temb))


class EulerSampler:
    def __init__(self, model, steps=4, device="cuda:0"):
        self.model, self.device = model, device
        self.times = torch.linspace(1, 0, steps + 1).tolist()

    @torch.no_grad()
    def sample(self, n):
        x = torch.randn(n, 3, 16, 16, device=self.device)
        for now, nxt in zip(self.times, self.times[1:]):
            t = torch.full((n,), now * 1000, device=self.device)
            velocity = self.model(x, t).to(self.device)
            x = x + (nxt - now) * velocity
        return x.clamp(-1, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(EulerSampler(Denoiser().eval()).sample(2).mean().item())
