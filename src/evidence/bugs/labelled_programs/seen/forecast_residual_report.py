# cause: numpy-of-gpu-tensor
# guilty: r (self.residuals, residual)
# line: 68
# repair: bring the residuals to the host when they are collected, (forecast - target).detach().cpu() in ResidualReport.add(), OR torch.cat(self.residuals).cpu().numpy() in table() OR compute the quantiles with torch.quantile on the card
"""Energy load forecasting with an N-BEATS like stack and a residual report per horizon step."""
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class TrendBlock(nn.Module):
    def __init__(self, lookback, horizon, width=48, degree=3):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(lookback, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.theta = nn.Linear(width, 2 * degree)
        self.register_buffer("back", torch.stack([torch.linspace(-1, 0, lookback) ** i for i in range(degree)]))
        self.register_buffer("fore", torch.stack([torch.linspace(0, 1, horizon) ** i for i in range(degree)]))

    def forward(self, x):
        back, fore = self.theta(self.trunk(x)).chunk(2, dim=-1)
        return back @ self.back, fore @ self.fore


class GenericBlock(nn.Module):
    def __init__(self, lookback, horizon, width=48):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(lookback, width), nn.ReLU(), nn.Linear(width, lookback + horizon))
        self.lookback = lookback

    def forward(self, x):
        out = self.trunk(x)
        return out[:, : self.lookback], out[:, self.lookback :]


class Stack(nn.Module):
    def __init__(self, lookback=48, horizon=8):
        super().__init__()
        self.lookback, self.horizon = lookback, horizon
        self.blocks = nn.ModuleList([TrendBlock(lookback, horizon), GenericBlock(lookback, horizon)])

    def forward(self, x):
        rest, total = x, 0
        for block in self.blocks:
            back, fore = block(rest)
            rest, total = rest - back, total + fore
        return total


class ResidualReport:
    def __init__(self, levels=(0.1, 0.5, 0.9)):
        self.levels = levels
        self.residuals = []
        self.absolute = 0.0
        self.count = 0

    def add(self, forecast, target):
        residual = (forecast - target).detach()
        self.residuals.append(residual)
        self.absolute += residual.abs().sum().item()
        self.count += residual.numel()

    @property
    def mae(self):
        return self.absolute / self.count

    def table(self):
        stacked = np.concatenate([np.asarray(r) for r in self.residuals])
        return {level: np.quantile(stacked, level, axis=0).round(2).tolist() for level in self.levels}


def windows(series, lookback, horizon):
    parts = series.unfold(0, lookback + horizon, 4)
    return parts[:, :lookback], parts[:, lookback:]


def load_curve(hours=1500, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(hours, dtype=torch.float)
    daily = torch.sin(2 * torch.pi * t / 24)
    weekly = 0.4 * torch.sin(2 * torch.pi * t / 168)
    return daily + weekly + 0.1 * torch.randn(hours, generator=g)


def train(model, past, future, device, epochs=3, batch=64):
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        report = ResidualReport()
        for rows in torch.randperm(len(past)).split(batch):
            x, y = past[rows].to(device), future[rows].to(device)
            forecast = model(x)
            loss = F.smooth_l1_loss(forecast, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            report.add(forecast, y)
        print(f"epoch {epoch} mae {report.mae:.3f}")
    return report


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:1")
    model = Stack().to(device)
    past, future = windows(load_curve(), model.lookback, model.horizon)
    report = train(model, past, future, device)
    for level, row in report.table().items():
        print(level, row)


if __name__ == "__main__":
    main()
