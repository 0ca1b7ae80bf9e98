# cause: metric-state-device|tensor-created-on-wrong-device
# guilty: self.total
import torch
import torch.nn as nn
from torch.distributions import Normal


class RunningNorm:
    def __init__(self, n):
        self.count = 1e-4
        self.total = torch.zeros(n)
        self.square = torch.ones(n) * 1e-4

    def observe(self, batch):
        self.count += batch.size(0)
        self.total += batch.sum(0)
        self.square += (batch ** 2).sum(0)

    def __call__(self, batch):
        mean = self.total / self.count
        var = (self.square / self.count - mean ** 2).clamp(min=1e-4)
        return (batch - mean) / var.sqrt()


class ActorCritic(nn.Module):
    def __init__(self, obs=11, act=3):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(obs, 64), nn.Tanh(), nn.Linear(64, act))
        self.v = nn.Sequential(nn.Linear(obs, 64), nn.Tanh(), nn.Linear(64, 1))
        self.log_std = nn.Parameter(torch.full((act,), -0.5))

    def forward(self, o):
        return Normal(self.pi(o), self.log_std.exp()), self.v(o).squeeze(-1)


device = torch.device("cuda:0")
ac = ActorCritic().to(device)
norm = RunningNorm(11)
opt = torch.optim.Adam(ac.parameters(), 3e-4)
for it in range(3):
    obs = 5 * torch.randn(256, 11, device=device) + 2
    norm.observe(obs)
    o = norm(obs)
    with torch.no_grad():
        dist, val = ac(o)
        act = dist.sample()
        old = dist.log_prob(act).sum(-1)
    ret = -(act ** 2).sum(-1)
    adv = ret - val
    for _ in range(2):
        dist, val = ac(o)
        ratio = (dist.log_prob(act).sum(-1) - old).exp()
        pg = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        loss = pg + 0.5 * (ret - val).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(it, loss.item())
