# cause: tensor-created-on-wrong-device
# guilty: table (self.sched.alpha_bar)
import math
from dataclasses import dataclass, field
import torch
from torch import nn, Tensor
import torch.nn.functional as F


def cosine_alpha_bar(steps: int) -> Tensor:
    t = torch.linspace(0, 1, steps + 1)
    f = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
    return (f / f[0])[1:].clamp(1e-4, 0.9999)


@dataclass
class Schedule:
    steps: int = 50
    alpha_bar: Tensor = field(init=False)

    def __post_init__(self):
        self.alpha_bar = cosine_alpha_bar(self.steps)

    def pick(self, t: Tensor, ndim: int) -> Tensor:
        return take(self.alpha_bar, t).reshape(-1, *([1] * (ndim - 1)))


def take(table: Tensor, t: Tensor) -> Tensor:
    return table.gather(0, t)


class Denoiser(nn.Module):
    def __init__(self, dim=2, hid=64):
        super().__init__()
        self.t_emb = nn.Embedding(50, hid)
        self.inp = nn.Linear(dim, hid)
        self.body = nn.Sequential(nn.SiLU(), nn.Linear(hid, hid), nn.SiLU(), nn.Linear(hid, dim))

    def forward(self, x, t):
        return self.body(self.inp(x) + self.t_emb(t))


class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.sched = Schedule()
        self.net = Denoiser()

    def q_sample(self, x0, t, noise):
        ab = self.sched.pick(t, x0.ndim)
        return ab.sqrt() * x0 + (1 - ab).sqrt() * noise

    def forward(self, x0):
        t = torch.randint(0, self.sched.steps, (x0.size(0),), device=x0.device)
        noise = torch.randn_like(x0)
        return F.mse_loss(self.net(self.q_sample(x0, t, noise), t), noise)


def two_moons(n):
    a = torch.rand(n) * math.pi
    up = torch.rand(n) < 0.5
    x = torch.where(up, a.cos(), 1 - a.cos())
    y = torch.where(up, a.sin(), 0.5 - a.sin())
    return torch.stack([x, y], -1) + 0.05 * torch.randn(n, 2)


if __name__ == "__main__":
    model = Diffusion().to("cuda")
    opt = torch.optim.Adam(model.parameters(), 2e-3)
    for it in range(20):
        loss = model(two_moons(64).to("cuda"))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    print("final", loss.item())
