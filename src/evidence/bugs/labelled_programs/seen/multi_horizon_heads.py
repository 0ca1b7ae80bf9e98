# cause: module-left-on-other-device
# guilty: head
"""Load forecasting: one GRU encoder, one head per horizon."""
import math
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

HORIZONS = (1, 6, 24)


def series(n=400):
    t = torch.arange(n, dtype=torch.float32)
    return torch.sin(2 * math.pi * t / 24) + 0.3 * torch.sin(2 * math.pi * t / 168) + 0.05 * torch.randn(n)


def windows(s, length=48):
    last = max(HORIZONS)
    xs, ys = [], []
    for i in range(len(s) - length - last):
        xs.append(s[i:i + length])
        ys.append(torch.stack([s[i + length + h - 1] for h in HORIZONS]))
    return TensorDataset(torch.stack(xs).unsqueeze(-1), torch.stack(ys))


class Forecaster(nn.Module):
    def __init__(self, hidden=32, horizons=HORIZONS):
        super().__init__()
        self.encoder = nn.GRU(1, hidden, batch_first=True)
        self.norm = nn.LayerNorm(hidden)
        self.heads = [nn.Sequential(nn.Linear(hidden, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in horizons]
        self.register_buffer("scale", torch.ones(1))

    def calibrate(self, s):
        self.scale.fill_(float(s.std()))
        return self

    def forward(self, x):
        _, h = self.encoder(x / self.scale)
        h = self.norm(h[-1])
        out = []
        for head in self.heads:
            out.append(head(h))
        return torch.cat(out, dim=-1) * self.scale


def pinball(pred, y, q=0.5):
    e = y - pred
    return torch.maximum(q * e, (q - 1) * e).mean()


def main():
    torch.manual_seed(0)
    dev = torch.device("cuda:1")
    s = series()
    model = Forecaster().calibrate(s).to(dev)
    params = list(model.parameters()) + [p for head in model.heads for p in head.parameters()]
    opt = torch.optim.Adam(params, 2e-3)
    loader = DataLoader(windows(s), batch_size=64, shuffle=True)
    for epoch in range(2):
        for x, y in loader:
            x, y = x.to(dev), y.to(dev)
            loss = pinball(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
