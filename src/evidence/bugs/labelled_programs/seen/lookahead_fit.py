# cause: optimizer-state-on-other-device|optimizer-built-before-move
# guilty: s (kept or self.slow)
"""Regression with a fast/slow weight optimizer wrapper."""
import torch
from torch import nn


class SlowFast:
    """Every k inner steps, pull the weights part of the way to a slow copy."""

    def __init__(self, inner, k=3, alpha=0.5):
        self.inner, self.k, self.alpha = inner, k, alpha
        self.count = 0
        self.slow = [[p.detach().clone() for p in g["params"]] for g in inner.param_groups]

    def zero_grad(self):
        self.inner.zero_grad(set_to_none=True)

    @torch.no_grad()
    def step(self):
        self.inner.step()
        self.count += 1
        if self.count % self.k:
            return
        for group, kept in zip(self.inner.param_groups, self.slow):
            for p, s in zip(group["params"], kept):
                gap = p - s
                s.add_(gap, alpha=self.alpha)
                p.copy_(s)


class Regressor(nn.Module):
    def __init__(self, inp, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(inp, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def configure(inp, width, lr):
    model = Regressor(inp, width)
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    inner = torch.optim.SGD(
        [{"params": decay, "weight_decay": 1e-4}, {"params": plain, "weight_decay": 0.0}],
        lr=lr, momentum=0.9)
    return model, SlowFast(inner)


def fit(model, optimizer, x, y, steps, device):
    model.to(device)
    x, y = x.to(device), y.to(device)
    for i in range(steps):
        loss = (model(x) - y).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{i:2d} {loss.item():.5f}")
    return model


if __name__ == "__main__":
    torch.manual_seed(21)
    x = torch.randn(80, 7)
    y = x.sin().sum(1)
    model, optimizer = configure(7, 16, lr=0.02)
    fit(model, optimizer, x, y, steps=7, device="cuda")
