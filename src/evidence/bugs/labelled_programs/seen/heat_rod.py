# cause: tensor-created-on-wrong-device
# guilty: seed (grad_outputs)
"""Physics-informed fit of u_t = a * u_xx on a rod of length one."""
import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Setup:
    diffusivity: float = 0.1
    interior: int = 64
    boundary: int = 16
    steps: int = 6
    device: str = "cuda"


def mlp(widths):
    layers = []
    for a, b in zip(widths[:-1], widths[1:]):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers[:-1])


def partial(y, x):
    seed = torch.ones(y.shape)
    return torch.autograd.grad(y, x, grad_outputs=seed, create_graph=True)[0]


def residual(net, x, t, a):
    x.requires_grad_(True)
    t.requires_grad_(True)
    u = net(torch.cat([x, t], dim=1))
    u_t = partial(u, t)
    u_xx = partial(partial(u, x), x)
    return u_t - a * u_xx


def boundary_loss(net, cfg):
    t = torch.rand(cfg.boundary, 1, device=cfg.device)
    ends = torch.cat([torch.zeros_like(t), torch.ones_like(t)])
    at_ends = net(torch.cat([ends, t.repeat(2, 1)], dim=1))
    x0 = torch.rand(cfg.boundary, 1, device=cfg.device)
    start = net(torch.cat([x0, torch.zeros_like(x0)], dim=1))
    return at_ends.pow(2).mean() + (start - torch.sin(math.pi * x0)).pow(2).mean()


def main(cfg=Setup()):
    torch.manual_seed(5)
    net = mlp([2, 20, 20, 1]).to(cfg.device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(cfg.steps):
        x = torch.rand(cfg.interior, 1, device=cfg.device)
        t = torch.rand(cfg.interior, 1, device=cfg.device)
        loss = boundary_loss(net, cfg)
        loss = loss + residual(net, x, t, cfg.diffusivity).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 5))


if __name__ == "__main__":
    main()
