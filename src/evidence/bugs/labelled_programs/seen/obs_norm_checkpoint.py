# cause: checkpoint-map-location
# guilty: norm["mean"]
import tempfile
from pathlib import Path

import torch
from torch import nn

workdir = Path(tempfile.mkdtemp())


def actor():
    return nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 2), nn.Tanh())


def learner():
    """Runs on the second GPU and publishes snapshots."""
    dev = "cuda:1"
    net = actor().to(dev)
    seen = torch.randn(256, 5, device=dev) * 3 + 1
    norm = {"mean": seen.mean(0), "std": seen.std(0)}
    opt = torch.optim.Adam(net.parameters())
    for _ in range(3):
        x = (seen - norm["mean"]) / norm["std"]
        loss = (net(x) - x[:, :2].clamp(-1, 1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.save(net.state_dict(), workdir / "actor.pt")
    torch.save(norm, workdir / "norm.pt")


class Env:
    def __init__(self, n, device):
        self.obs = torch.zeros(n, 5, device=device)

    def step(self, act):
        self.obs = 0.9 * self.obs + nn.functional.pad(act, (0, 3))
        return self.obs, -self.obs.square().sum(-1)


@torch.no_grad()
def player(steps=5):
    dev = "cuda:0"
    net = actor().to(dev)
    net.load_state_dict(torch.load(workdir / "actor.pt"))
    norm = torch.load(workdir / "norm.pt")
    env = Env(8, dev)
    obs, ret = env.obs, 0.0
    for _ in range(steps):
        centred = obs - norm["mean"]
        obs, reward = env.step(net(centred / norm["std"]))
        ret += reward.mean().item()
    return ret


learner()
print("return", player())
