# cause: tensor-created-on-wrong-device
# guilty: self.abar
import torch
import torch.nn as nn


class Schedule:
    def __init__(self, steps=100, lo=1e-4, hi=0.02):
        self.steps = steps
        self.beta = torch.linspace(lo, hi, steps)
        self.abar = torch.cumprod(1 - self.beta, 0)

    def q_sample(self, x0, t, eps):
        a = self.abar[t].view(-1, 1)
        return a.sqrt() * x0 + (1 - a).sqrt() * eps


class Eps(nn.Module):
    def __init__(self, d=2, h=64, steps=100):
        super().__init__()
        self.temb = nn.Embedding(steps, h)
        self.inp = nn.Linear(d, h)
        self.mid = nn.Sequential(nn.SiLU(), nn.Linear(h, h), nn.SiLU(), nn.Linear(h, d))

    def forward(self, x, t):
        return self.mid(self.inp(x) + self.temb(t))


def two_moons(n):
    a = torch.rand(n) * torch.pi
    top = torch.stack([a.cos(), a.sin()], 1)
    return torch.where((torch.rand(n) > 0.5)[:, None], top, torch.tensor([1.0, 0.5]) - top)


device = torch.device("cuda")
sched = Schedule()
net = Eps().to(device)
opt = torch.optim.Adam(net.parameters(), 2e-3)
for it in range(20):
    x0 = two_moons(128).to(device)
    t = torch.randint(0, sched.steps, (128,), device=device)
    eps = torch.randn_like(x0)
    xt = sched.q_sample(x0, t, eps)
    loss = (net(xt, t) - eps).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
