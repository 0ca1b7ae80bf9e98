# cause: tensor-created-on-wrong-device|cache-or-beam-state-on-wrong-device
# guilty: y (saved)
"""Normalising flow whose widest non-linearity is evaluated on a helper card."""
import math

import torch
import torch.nn as nn

HELPER = torch.device("cuda:1")


class RemoteExp(torch.autograd.Function):
    """exp in double precision on the helper card, handed back to the caller's card."""

    @staticmethod
    def forward(ctx, x):
        y = x.detach().to(HELPER, torch.float64).exp().to(x.dtype)
        ctx.save_for_backward(y)
        return y.to(x.device)

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad * y


class Coupling(nn.Module):
    def __init__(self, dim, hidden, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(dim // 2, hidden), nn.Tanh(), nn.Linear(hidden, dim))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        log_s, shift = self.net(a).chunk(2, dim=1)
        log_s = torch.tanh(log_s)
        b = b * RemoteExp.apply(log_s) + shift
        out = torch.cat([b, a] if self.flip else [a, b], dim=1)
        return out, log_s.sum(1)


class Flow(nn.Module):
    def __init__(self, dim=4, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(Coupling(dim, 32, bool(i % 2)) for i in range(depth))

    def log_prob(self, x):
        logdet = x.new_zeros(x.shape[0])
        for layer in self.layers:
            x, add = layer(x)
            logdet = logdet + add
        base = -0.5 * (x ** 2).sum(1) - 0.5 * x.shape[1] * math.log(2 * math.pi)
        return base + logdet


def data(n):
    angle = torch.rand(n) * 2 * math.pi
    ring = torch.stack([angle.cos(), angle.sin()], dim=1) * 2
    return torch.cat([ring, 0.3 * torch.randn(n, 2)], dim=1)


def main():
    torch.manual_seed(0)
    flow = Flow().to("cuda:0")
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-3)
    with torch.no_grad():
        print("start", flow.log_prob(data(256).to("cuda:0")).mean().item())
    for step in range(5):
        x = data(128).to("cuda:0")
        loss = -flow.log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
