# cause: tensor-created-on-wrong-device
# guilty: self.bar (bar)
import torch
import torch.nn as nn


class Schedule:
    def __init__(self, steps=50, lo=1e-4, hi=0.02):
        self.steps = steps
        self.beta = torch.linspace(lo, hi, steps)
        self.bar = torch.cumprod(1 - self.beta, 0)

    def mix(self, x0, eps, t):
        a = self.bar[t].view(-1, 1, 1, 1)
        return a.sqrt() * x0 + (1 - a).sqrt() * eps


class Denoiser(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.emb = nn.Embedding(steps, 8)
        self.inp = nn.Conv2d(1, 8, 3, padding=1)
        self.out = nn.Conv2d(8, 1, 3, padding=1)

    def forward(self, x, t):
        h = self.inp(x) + self.emb(t)[:, :, None, None]
        return self.out(h.relu())


def train(device, iters=3):
    sched = Schedule()
    net = Denoiser(sched.steps).to(device)
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    for i in range(iters):
        x0 = torch.rand(6, 1, 8, 8).to(device)
        t = torch.randint(0, sched.steps, (6,), device=device)
        eps = torch.randn_like(x0)
        pred = net(sched.mix(x0, eps, t), t)
        loss = (pred - eps).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"iter {i} loss {loss.item():.4f}")
    return net


if __name__ == "__main__":
    torch.manual_seed(3)
    train("cuda:0")
