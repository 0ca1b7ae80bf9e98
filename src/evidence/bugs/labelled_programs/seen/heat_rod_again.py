# cause: tensor-created-on-wrong-device
# guilty: ones
"""Physics-informed network for the heat equation u_t = k u_xx on a rod."""
import math

import torch

K = 0.1


def mlp(sizes, device):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        w = torch.randn(a, b, device=device) / math.sqrt(a)
        layers.append((w.requires_grad_(), torch.zeros(b, device=device, requires_grad=True)))
    return layers


def apply(layers, x):
    for i, (w, b) in enumerate(layers):
        x = x @ w + b
        if i + 1 < len(layers):
            x = torch.tanh(x)
    return x


def slopes(value, point, ones):
    return torch.autograd.grad(value, point, ones, create_graph=True)[0]


def residual(layers, point, ones):
    u = apply(layers, point)
    first = slopes(u, point, ones)
    u_x, u_t = first[:, :1], first[:, 1:]
    u_xx = slopes(u_x, point, ones)[:, :1]
    return u_t - K * u_xx


def losses(layers, n, device):
    ones = torch.ones(n, 1)
    inner = torch.rand(n, 2, device=device, requires_grad=True)
    x0 = torch.rand(n, 1, device=device)
    start = torch.cat([x0, torch.zeros_like(x0)], dim=1)
    ends = torch.rand(n, 2, device=device)
    ends[:, 0] = (ends[:, 0] > 0.5).float()
    return {
        "start": (apply(layers, start) - torch.sin(math.pi * x0)).square().mean(),
        "ends": apply(layers, ends).square().mean(),
        "inside": residual(layers, inner, ones).square().mean(),
    }


def solve(steps=5, n=64, device="cuda:0"):
    torch.manual_seed(9)
    layers = mlp([2, 24, 24, 1], device)
    opt = torch.optim.Adam([p for pair in layers for p in pair], lr=5e-3)
    for step in range(steps):
        parts = losses(layers, n, device)
        opt.zero_grad()
        sum(parts.values()).backward()
        opt.step()
        print(step, {k: round(v.item(), 4) for k, v in parts.items()})


solve()
