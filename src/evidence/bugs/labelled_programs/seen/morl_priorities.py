# cause: numpy-of-gpu-tensor
# guilty: idxes (batch_idx)
"""Prioritised replay with a sum tree, continuous actions."""
import numpy as np
import torch
from torch import nn


class Tree:
    def __init__(self, n):
        self.levels = [np.zeros(1)]
        size = 1
        while size < n:
            size *= 2
            self.levels.append(np.zeros(size))

    def set_many(self, where, value):
        where, first = np.unique(where, return_index=True)
        value = np.asarray(value)[first]
        for level in self.levels[::-1]:
            np.add.at(level, where, value - self.levels[-1][where] if level is self.levels[-1] else 0.0)
            where = where // 2


class Replay:
    def __init__(self, n, s, a):
        self.tree = Tree(n)
        self.s, self.a = np.random.randn(n, s).astype("f4"), np.random.randn(n, a).astype("f4")
        self.r = np.random.randn(n, 1).astype("f4")

    def sample(self, k, device):
        idx = np.random.randint(0, len(self.r), k)
        return tuple(torch.tensor(z).to(device) for z in (self.s[idx], self.a[idx], self.r[idx], idx))

    def update(self, idxes, priorities):
        self.tree.set_many(idxes, priorities)


class Agent:
    def __init__(self, s=6, a=2, device="cuda"):
        self.device = torch.device(device)
        self.q = nn.Sequential(nn.Linear(s + a, 64), nn.ReLU(), nn.Linear(64, 1)).to(self.device)
        self.opt = torch.optim.Adam(self.q.parameters(), 3e-4)
        self.replay = Replay(256, s, a)

    def learn(self):
        s, a, r, idxes = self.replay.sample(32, self.device)
        td = self.q(torch.cat([s, a], 1)) - r
        self.opt.zero_grad()
        td.square().mean().backward()
        self.opt.step()
        per = td.abs().detach().cpu().numpy().flatten()
        self.replay.update(idxes, per)


agent = Agent()
for _ in range(2):
    agent.learn()
