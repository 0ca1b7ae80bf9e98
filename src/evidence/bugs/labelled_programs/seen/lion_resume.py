# cause: optimizer-state-on-other-device
# guilty: m
import io

import torch
from torch import nn


class Lion:
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), wd=0.01):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.betas, self.wd = lr, betas, wd
        self.m = [torch.zeros_like(p) for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        b1, b2 = self.betas
        for p, m in zip(self.params, self.m):
            direction = m.mul(b1).add(p.grad, alpha=1 - b1).sign()
            p.mul_(1 - self.lr * self.wd).add_(direction, alpha=-self.lr)
            m.mul_(b2).add_(p.grad, alpha=1 - b2)

    def state_dict(self):
        return {"m": self.m, "lr": self.lr}

    def load_state_dict(self, state):
        self.m, self.lr = list(state["m"]), state["lr"]


def make(device):
    net = nn.Sequential(nn.Linear(6, 32), nn.SiLU(), nn.Linear(32, 1)).to(device)
    return net, Lion(net.parameters())


def train(net, opt, steps, device):
    for _ in range(steps):
        x = torch.randn(32, 6, device=device)
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


device = "cuda:0"
net, opt = make(device)
print("first", train(net, opt, 3, device))
file = io.BytesIO()
torch.save({"model": net.state_dict(), "optimizer": opt.state_dict()}, file)
file.seek(0)

# a new day
net, opt = make(device)
ckpt = torch.load(file, map_location="cpu", weights_only=True)
net.load_state_dict(ckpt["model"])
opt.load_state_dict(ckpt["optimizer"])
print("second", train(net, opt, 3, device))
