# cause: tensor-created-on-wrong-device|module-left-on-other-device
# guilty: self.alpha_bar (plan.alpha_bar, table)
# line: 34
# repair: assign what NoisePlan.to returns: plan = plan.to(device) in DenoiseTrainer.__init__ (to() returns a new plan and changes nothing in place)
"""Small diffusion trainer whose noise plans come from a registry."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

PLANS = {
    "linear": lambda n: torch.linspace(1e-4, 0.02, n),
    "cosine": lambda n: (1 - torch.cos(torch.linspace(0, math.pi / 2, n + 1)[1:]) * 0.999).clamp(1e-4, 0.5),
}


class NoisePlan:
    def __init__(self, betas):
        self.betas = betas
        self.alpha_bar = torch.cumprod(1 - betas, 0)

    @classmethod
    def named(cls, name, steps):
        return cls(PLANS[name](steps))

    def to(self, device):
        return NoisePlan(self.betas.to(device))

    def __len__(self):
        return len(self.betas)

    def take(self, t, like):
        value = self.alpha_bar.gather(0, t)
        return value.view(-1, *[1] * (like.dim() - 1))

    def corrupt(self, x, t, noise):
        a = self.take(t, x)
        return a.sqrt() * x + (1 - a).sqrt() * noise


class Denoiser(nn.Module):
    """Lower half on one card, upper half on the other."""

    def __init__(self, width=24, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.devices = devices
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU()).to(devices[0])
        self.down = nn.Conv2d(1, width, 3, padding=1).to(devices[0])
        self.up = nn.Sequential(nn.SiLU(), nn.Conv2d(width, 1, 3, padding=1)).to(devices[1])

    def forward(self, x, t):
        h = self.down(x) + self.time(t.float().view(-1, 1) / 100)[:, :, None, None]
        return self.up(h.to(self.devices[1])).to(x.device)


class DenoiseTrainer:
    def __init__(self, model, plan, device, lr=2e-3):
        plan.to(device)
        self.model, self.plan, self.device = model, plan, device
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def loss(self, x):
        t = torch.randint(0, len(self.plan), (x.size(0),), device=self.device)
        noise = torch.randn_like(x)
        return F.mse_loss(self.model(self.plan.corrupt(x, t, noise), t), noise)

    def fit(self, batches):
        for x in batches:
            self.optimizer.zero_grad()
            loss = self.loss(x.to(self.device))
            loss.backward()
            self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = DenoiseTrainer(Denoiser(), NoisePlan.named("cosine", 100), "cuda:0")
    print(trainer.fit(torch.rand(4, 1, 8, 8) for _ in range(4)))
