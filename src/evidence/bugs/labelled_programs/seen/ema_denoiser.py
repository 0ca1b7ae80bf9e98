# cause: module-left-on-other-device
# guilty: avg (avg.mul_(self.decay) or self.model)
"""Image denoiser with an averaged copy of the weights for evaluation."""
import copy
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    device: str = "cuda:0"
    decay: float = 0.9
    steps: int = 6
    noise: float = 0.2


class Denoiser(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.head = nn.Conv2d(1, width, 3, padding=1)
        self.norm = nn.GroupNorm(3, width)
        self.tail = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x):
        return x - self.tail(torch.relu(self.norm(self.head(x))))


class Averaged:
    def __init__(self, model, decay):
        self.decay = decay
        self.model = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, source):
        for avg, p in zip(self.model.parameters(), source.parameters()):
            avg.mul_(self.decay).add_(p, alpha=1 - self.decay)


class Experiment:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model = Denoiser()
        self.averaged = Averaged(self.model, cfg.decay)
        self.model.to(cfg.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)

    def images(self, n=4):
        base = torch.linspace(0, 1, 16, device=self.cfg.device)
        clean = (base[None, :] * base[:, None]).expand(n, 1, 16, 16)
        return clean, clean + self.cfg.noise * torch.randn(n, 1, 16, 16, device=self.cfg.device)

    def run(self):
        for i in range(self.cfg.steps):
            clean, noisy = self.images()
            loss = (self.model(noisy) - clean).abs().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.averaged.update(self.model)
            print(i, f"{loss.item():.4f}")
        clean, noisy = self.images()
        with torch.no_grad():
            print("averaged", (self.averaged.model(noisy) - clean).abs().mean().item())


if __name__ == "__main__":
    torch.manual_seed(22)
    Experiment(Config()).run()
