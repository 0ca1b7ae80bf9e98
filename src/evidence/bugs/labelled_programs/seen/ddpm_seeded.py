# cause: generator-on-other-device|generator-or-default-device
# guilty: rng
"""Reproducible ancestral sampling from a toy DDPM."""
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU())
        self.inp = nn.Conv2d(1, width, 3, padding=1)
        self.out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x, t):
        emb = self.time(t.view(-1, 1).float() / 100)
        return self.out(torch.relu(self.inp(x) + emb[..., None, None]))


class Schedule:
    def __init__(self, steps):
        self.beta = torch.linspace(1e-4, 0.05, steps)
        self.alpha_bar = (1 - self.beta).cumprod(0)
        self.steps = steps

    def at(self, t):
        return self.beta[t], self.alpha_bar[t]


class Sampler:
    def __init__(self, model, schedule, seed):
        self.model, self.schedule = model, schedule
        self.device = next(model.parameters()).device
        self.streams = {
            "start": torch.Generator().manual_seed(seed),
            "steps": torch.Generator().manual_seed(seed + 1),
        }

    def start(self, n):
        latents = torch.randn(n, 1, 8, 8, generator=self.streams["start"])
        return latents.to(self.device)

    def jitter(self, like):
        rng = self.streams["steps"]
        return torch.randn(like.shape, generator=rng, device=like.device, dtype=like.dtype)

    @torch.no_grad()
    def sample(self, n):
        x = self.start(n)
        for t in reversed(range(self.schedule.steps)):
            beta, bar = self.schedule.at(t)
            steps = torch.full((n,), t, device=self.device)
            eps = self.model(x, steps)
            x = (x - beta / (1 - bar).sqrt() * eps) / (1 - beta).sqrt()
            if t > 0:
                x = x + beta.sqrt() * self.jitter(x)
        return x.cpu()


if __name__ == "__main__":
    torch.manual_seed(0)
    images = Sampler(Denoiser().to("cuda:0"), Schedule(10), seed=42).sample(3)
    print(images.mean().item(), images.numpy().shape)
