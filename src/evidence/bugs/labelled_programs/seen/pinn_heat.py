# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: zero
"""Physics-informed network for u_t = a u_xx on [0, 1] x [0, 1]."""
import math
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

ALPHA = 0.1


class Field(nn.Module):
    def __init__(self, h=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 1))

    def forward(self, xt):
        return self.net(xt).squeeze(-1)


def residual(net, params, pts):
    def u(x, t):
        return functional_call(net, params, (torch.stack([x, t]),))

    u_t = vmap(grad(u, argnums=1))
    u_xx = vmap(grad(grad(u, argnums=0), argnums=0))
    x, t = pts.unbind(1)
    return u_t(x, t) - ALPHA * u_xx(x, t)


class Problem:
    def __init__(self, device, n=64):
        self.device, self.n = device, n
        self.gen = torch.Generator(device=device).manual_seed(0)

    def interior(self):
        return torch.rand(self.n, 2, device=self.device, generator=self.gen)

    def initial(self):
        x = torch.rand(self.n, 1, device=self.device, generator=self.gen)
        pts = torch.cat([x, torch.zeros_like(x)], dim=1)
        return pts, torch.sin(math.pi * x).squeeze(1)

    def boundary(self):
        t = torch.rand(self.n, 1, device=self.device, generator=self.gen)
        zero = torch.zeros(self.n, 1, device="cuda")
        left = torch.cat([zero, t], dim=1)
        right = torch.cat([torch.ones_like(t), t], dim=1)
        return torch.cat([left, right])


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:1")
    net = Field().to(device)
    problem = Problem(device)
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    for step in range(5):
        params = dict(net.named_parameters())
        pde = residual(net, params, problem.interior()).pow(2).mean()
        pts, target = problem.initial()
        start = (net(pts) - target).pow(2).mean()
        edge = net(problem.boundary()).pow(2).mean()
        loss = pde + 10 * start + 10 * edge
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
