# cause: generator-or-default-device
# guilty: self.stream (generator)
# line: 21
# repair: in DepthDropper.__init__ make the generator on the branch's card (torch.Generator(device=card)) OR draw on the host and move: torch.empty(shape).bernoulli_(keep, generator=self.stream).to(x.device)
"""Reproducible stochastic depth: every residual branch has its own random stream."""
import torch
from torch import nn


class DepthDropper(nn.Module):
    def __init__(self, rate, seed):
        super().__init__()
        self.keep = 1.0 - rate
        self.stream = torch.Generator()
        self.stream.manual_seed(seed)

    def forward(self, x):
        if not self.training or self.keep == 1.0:
            return x
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        mask = x.new_empty(shape).bernoulli_(self.keep, generator=self.stream)
        return x * mask / self.keep


class Branch(nn.Module):
    def __init__(self, dim, rate, seed):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.net = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
        self.drop = DepthDropper(rate, seed)

    def forward(self, x):
        return x + self.drop(self.net(self.norm(x)))


class TabularNet(nn.Module):
    def __init__(self, features, dim=32, depth=6, top_rate=0.3, seed=7):
        super().__init__()
        self.inp = nn.Linear(features, dim)
        rates = torch.linspace(0, top_rate, depth).tolist()
        self.branches = nn.ModuleList([Branch(dim, r, seed + i) for i, r in enumerate(rates)])
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        h = self.inp(x)
        for branch in self.branches:
            h = branch(h)
        return self.out(h).squeeze(-1)


class Regressor:
    def __init__(self, features, device):
        self.device = torch.device(device)
        self.net = TabularNet(features).to(self.device)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=2e-3)

    def fit(self, x, y, epochs=3, size=16):
        self.net.train()
        for _ in range(epochs):
            for xb, yb in zip(x.split(size), y.split(size)):
                xb, yb = xb.to(self.device), yb.to(self.device)
                loss = (self.net(xb) - yb).pow(2).mean()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
        return loss.item()


if __name__ == "__main__":
    x = torch.randn(64, 10)
    print(Regressor(10, "cuda:0").fit(x, x[:, 0] * 2 - x[:, 3]))
