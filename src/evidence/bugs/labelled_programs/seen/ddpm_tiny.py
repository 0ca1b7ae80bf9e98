# cause: tensor-created-on-wrong-device
# guilty: self.sqrt_ab
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Schedule:
    def __init__(self, steps=50, beta_start=1e-4, beta_end=0.02):
        self.steps = steps
        self.betas = torch.linspace(beta_start, beta_end, steps)
        alphas = 1.0 - self.betas
        ab = torch.cumprod(alphas, dim=0)
        self.sqrt_ab = ab.sqrt()
        self.sqrt_1mab = (1 - ab).sqrt()
        self.alphas = alphas

    def add_noise(self, x0, noise, t):
        shape = (-1,) + (1,) * (x0.dim() - 1)
        a = self.sqrt_ab[t].view(shape)
        b = self.sqrt_1mab[t].view(shape)
        return a * x0 + b * noise


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        freqs = torch.exp(-math.log(1e4) * torch.arange(dim // 2) / (dim // 2))
        self.register_buffer("freqs", freqs)
        self.proj = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        ang = t[:, None].float() * self.freqs[None]
        return self.proj(torch.cat([ang.sin(), ang.cos()], dim=-1))


class Denoiser(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.time = TimeEmbedding(ch)
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.mid = nn.Conv2d(ch, ch, 3, padding=1)
        self.norm = nn.GroupNorm(4, ch)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t):
        h = self.inp(x) + self.time(t)[:, :, None, None]
        h = F.silu(self.norm(self.mid(F.silu(h)))) + h
        return self.out(h)


class EMA:
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

    def update(self, model):
        for k, v in model.state_dict().items():
            self.shadow[k].lerp_(v, 1 - self.decay)


def train(device="cuda", iters=5):
    torch.manual_seed(0)
    schedule = Schedule()
    net = Denoiser().to(device)
    ema = EMA(net)
    opt = torch.optim.Adam(net.parameters(), 2e-4)
    data = torch.rand(64, 1, 16, 16) * 2 - 1
    for it in range(iters):
        idx = torch.randint(0, len(data), (8,))
        x0 = data[idx].to(device)
        t = torch.randint(0, schedule.steps, (x0.size(0),), device=x0.device)
        noise = torch.randn_like(x0)
        xt = schedule.add_noise(x0, noise, t)
        loss = F.mse_loss(net(xt, t), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update(net)
        print(it, round(loss.item(), 4))
    return net, ema


if __name__ == "__main__":
    train()
