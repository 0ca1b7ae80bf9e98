# cause: checkpoint-map-location
# guilty: self.mean (mean or self.var)
"""Evaluation of a policy that was trained on the second card."""
import os
import tempfile

import torch
from torch import nn


class ObsNorm:
    def __init__(self, dim, device):
        self.mean = torch.zeros(dim, device=device)
        self.var = torch.ones(dim, device=device)
        self.count = 1e-4

    def update(self, obs):
        n = len(obs)
        delta = obs.mean(0) - self.mean
        tot = self.count + n
        self.var = (self.var * self.count + obs.var(0) * n + delta ** 2 * self.count * n / tot) / tot
        self.mean = self.mean + delta * n / tot
        self.count = tot

    def __call__(self, obs):
        return (obs - self.mean) / (self.var + 1e-8).sqrt()

    def state(self):
        return {"mean": self.mean, "var": self.var, "count": self.count}

    def restore(self, s):
        self.mean, self.var, self.count = s["mean"], s["var"], s["count"]


def policy():
    return nn.Sequential(nn.Linear(11, 64), nn.Tanh(), nn.Linear(64, 3))


def train(path, device):
    net, norm = policy().to(device), ObsNorm(11, device)
    for _ in range(3):
        obs = torch.randn(32, 11, device=device) * 3 + 1
        norm.update(obs)
        net(norm(obs))
    torch.save({"net": net.state_dict(), "norm": norm.state()}, path)


def evaluate(path, device):
    saved = torch.load(path)
    net, norm = policy().to(device), ObsNorm(11, device)
    net.load_state_dict(saved["net"])
    norm.restore(saved["norm"])
    with torch.no_grad():
        return net(norm(torch.randn(1, 11, device=device)))


if __name__ == "__main__":
    file = os.path.join(tempfile.gettempdir(), f"policy-{os.getpid()}.pt")
    train(file, torch.device("cuda:1"))
    print(evaluate(file, torch.device("cuda:0")))
    os.remove(file)
