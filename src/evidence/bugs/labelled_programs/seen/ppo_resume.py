# cause: checkpoint-map-location
# guilty: self.mean
import os
import tempfile

import torch
from torch import nn


class ObsScaler:
    def __init__(self, size, device):
        self.mean = torch.zeros(size, device=device)
        self.var = torch.ones(size, device=device)
        self.n = 1e-4

    def update(self, obs):
        k = obs.shape[0]
        self.mean = self.mean + (obs.mean(0) - self.mean) * k / (self.n + k)
        self.var = 0.99 * self.var + 0.01 * obs.var(0)
        self.n += k

    def __call__(self, obs):
        return (obs - self.mean) / (self.var + 1e-8).sqrt()


def train(device, path, resume=False):
    policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 2)).to(device)
    scaler = ObsScaler(6, device)
    if resume:
        saved = torch.load(path)
        policy.load_state_dict(saved["policy"])
        scaler.mean, scaler.var = saved["mean"], saved["var"]
    for _ in range(4):
        obs = torch.randn(16, 6).to(device)
        scaler.update(obs)
        policy(scaler(obs)).sum().backward()
    torch.save({"policy": policy.state_dict(), "mean": scaler.mean, "var": scaler.var}, path)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "last.pt")
    train("cuda:1", path)
    train("cuda:0", path, resume=True)
