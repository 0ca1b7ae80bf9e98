# cause: generator-or-default-device|generator-on-other-device
# guilty: self.rng
"""Uncertainty by Monte-Carlo dropout with a reproducible stream of masks."""
import torch
from torch import nn


class SeededDropout(nn.Module):
    def __init__(self, p, seed):
        super().__init__()
        self.p = p
        self.rng = torch.Generator().manual_seed(seed)

    def forward(self, x):
        if not self.training:
            return x
        keep = torch.empty_like(x).bernoulli_(1 - self.p, generator=self.rng)
        return x * keep / (1 - self.p)


class Regressor(nn.Module):
    def __init__(self, h=64):
        super().__init__()
        self.inp, self.mid, self.out = nn.Linear(1, h), nn.Linear(h, h), nn.Linear(h, 2)
        self.drop = SeededDropout(0.1, seed=42)

    def forward(self, x):
        x = torch.tanh(self.inp(x))
        x = self.drop(torch.tanh(self.mid(x)))
        mean, raw = self.out(x).chunk(2, dim=-1)
        return mean, nn.functional.softplus(raw) + 1e-3


def nll(mean, std, y):
    return (((y - mean) / std) ** 2 / 2 + std.log()).mean()


@torch.no_grad()
def posterior(model, x, samples=10):
    model.train()
    draws = torch.stack([model(x)[0] for _ in range(samples)])
    model.eval()
    return draws.mean(0), draws.std(0)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    data_rng = torch.Generator().manual_seed(7)
    x = (torch.rand(128, 1, generator=data_rng) * 6 - 3).to(device)
    y = x.sin() + 0.1 * torch.randn(x.shape, device=device)
    grid = torch.linspace(-4, 4, 9, device=device).unsqueeze(1)
    model = Regressor().to(device).eval()
    with torch.no_grad():
        print("initial nll", nll(*model(x), y).item())
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    model.train()
    for step in range(15):
        order = torch.randperm(len(x), generator=data_rng).to(device)
        for idx in order.split(64):
            loss = nll(*model(x[idx]), y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
    mean, std = posterior(model, grid)
    print("nll", loss.item(), "spread", std.flatten().cpu().tolist())


if __name__ == "__main__":
    main()
