# cause: tensor-created-on-wrong-device|extra-input-on-wrong-device
# guilty: self.timesteps (t)
import torch
import torch.nn as nn


class EulerScheduler:
    def __init__(self, n_train=1000):
        betas = torch.linspace(0.00085 ** 0.5, 0.012 ** 0.5, n_train) ** 2
        acp = torch.cumprod(1 - betas, dim=0)
        self.all_sigmas = ((1 - acp) / acp) ** 0.5

    def set_timesteps(self, n):
        self.timesteps = torch.linspace(len(self.all_sigmas) - 1, 0, n).round()
        sig = self.all_sigmas[self.timesteps.long()]
        self.sigmas = torch.cat([sig, sig.new_zeros(1)])

    def index_of(self, t):
        hits = (self.timesteps == t).nonzero()
        return int(hits[0])

    def scale(self, x, t):
        return x / (self.sigmas[self.index_of(t)] ** 2 + 1) ** 0.5

    def step(self, eps, t, x):
        i = self.index_of(t)
        return x + eps * (self.sigmas[i + 1] - self.sigmas[i])


class Denoiser(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim + 1, 64), nn.SiLU(), nn.Linear(64, dim))

    def forward(self, x, t):
        tt = (t / 1000).expand(x.size(0), 1)
        return self.net(torch.cat([x, tt], dim=1))


device = torch.device("cuda:1")
model = Denoiser().to(device)
sched = EulerScheduler()
sched.set_timesteps(12)
timesteps = sched.timesteps.to(device)
x = torch.randn(8, 32, device=device) * sched.sigmas[0]
with torch.no_grad():
    for t in timesteps:
        eps = model(sched.scale(x, t), t)
        x = sched.step(eps, t, x)
print(x.abs().mean().item())
