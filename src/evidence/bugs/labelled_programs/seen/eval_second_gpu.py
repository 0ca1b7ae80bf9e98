# cause: checkpoint-map-location
# guilty: stats["mean"] (stats['mean'] or stats["std"] or stats['std'] or stats)
"""Train a forecaster on one GPU, then score the saved run on the other one."""
import pathlib
import tempfile

import torch
from torch import nn

WINDOW, HORIZON = 12, 3


def series(n=200):
    t = torch.arange(n, dtype=torch.float32)
    return torch.stack([torch.sin(t / 5) * 4 + 10, torch.cos(t / 9) * 2 - 3, t / 50], dim=1)


def windows(data):
    stacked = data.unfold(0, WINDOW + HORIZON, 1).transpose(1, 2)
    return stacked[:, :WINDOW], stacked[:, WINDOW:]


class Forecaster(nn.Module):
    def __init__(self, channels=3, hidden=20):
        super().__init__()
        self.rnn = nn.LSTM(channels, hidden, batch_first=True)
        self.out = nn.Linear(hidden, channels * HORIZON)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1]).view(x.size(0), HORIZON, x.size(2))


def train(folder, device):
    data = series().to(device)
    stats = {"mean": data.mean(0), "std": data.std(0)}
    x, y = windows((data - stats["mean"]) / stats["std"])
    model = Forecaster().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(6):
        loss = (model(x) - y).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.save(model.state_dict(), folder / "weights.pt")
    torch.save(stats, folder / "stats.pt")
    return loss.item()


@torch.no_grad()
def score(folder, device):
    model = Forecaster().to(device).eval()
    model.load_state_dict(torch.load(folder / "weights.pt"))
    stats = torch.load(folder / "stats.pt")
    data = series(120).to(device)
    scaled = (data - stats["mean"]) / stats["std"]
    x, y = windows(scaled)
    return (model(x) - y).abs().mean().item()


if __name__ == "__main__":
    torch.manual_seed(23)
    folder = pathlib.Path(tempfile.mkdtemp())
    print("train loss", train(folder, torch.device("cuda:0")))
    print("test error", score(folder, torch.device("cuda:1")))
