# cause: checkpoint-map-location
# guilty: state["x_mean"]
"""Two-phase regression: phase one writes a checkpoint, phase two picks it up."""
import os
import tempfile
import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(12, 64), nn.Tanh(), nn.Linear(64, 1))


def dataset(seed, n=256):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g) * 3 + 5
    return x, x.mul(torch.linspace(-1, 1, 12)).sum(1, keepdim=True)


def phase_one(path):
    dev = torch.device("cuda:1")
    x, y = (t.to(dev) for t in dataset(0))
    mean, std = x.mean(0), x.std(0)
    net = build().to(dev)
    opt = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(20):
        loss = nn.functional.mse_loss(net((x - mean) / std), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.save({"net": net.state_dict(), "opt": opt.state_dict(),
                "x_mean": mean, "x_std": std, "epoch": 20}, path)
    print("phase one", loss.item())


def phase_two(path):
    dev = torch.device("cuda:0")
    state = torch.load(path)
    net = build().to(dev)
    net.load_state_dict(state["net"])
    opt = torch.optim.Adam(net.parameters(), 1e-2)
    opt.load_state_dict(state["opt"])
    x, y = (t.to(dev) for t in dataset(1))
    for epoch in range(state["epoch"], state["epoch"] + 10):
        z = (x - state["x_mean"]) / state["x_std"]
        loss = nn.functional.mse_loss(net(z), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("phase two", epoch, loss.item())


if __name__ == "__main__":
    torch.manual_seed(2)
    with tempfile.TemporaryDirectory() as tmp:
        ckpt = os.path.join(tmp, "last.pt")
        phase_one(ckpt)
        phase_two(ckpt)
