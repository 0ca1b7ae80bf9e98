# cause: numpy-of-gpu-tensor
# guilty: surprise (surprise + 1e-5)
"""Q-learning on a toy cart with replay that prefers surprising moves."""
import numpy as np
import torch
from torch import nn

DEVICE = torch.device("cuda")


class Replay:
    def __init__(self, room, obs_dim, seed=0):
        self.obs = np.zeros((room, obs_dim), dtype=np.float32)
        self.nxt = np.zeros((room, obs_dim), dtype=np.float32)
        self.act = np.zeros(room, dtype=np.int64)
        self.rew = np.zeros(room, dtype=np.float32)
        self.prio = np.zeros(room, dtype=np.float32)
        self.room, self.size, self.at = room, 0, 0
        self.rng = np.random.default_rng(seed)

    def add(self, obs, act, rew, nxt):
        i = self.at
        self.obs[i], self.act[i], self.rew[i], self.nxt[i] = obs, act, rew, nxt
        self.prio[i] = self.prio.max() or 1.0
        self.at, self.size = (i + 1) % self.room, min(self.size + 1, self.room)

    def sample(self, n):
        p = self.prio[: self.size] ** 0.6
        rows = self.rng.choice(self.size, n, p=p / p.sum())
        cols = (self.obs[rows], self.act[rows], self.rew[rows], self.nxt[rows])
        return rows, [torch.from_numpy(c).to(DEVICE) for c in cols]

    def refresh(self, rows, surprise):
        self.prio[rows] = surprise + 1e-5


def play(q, obs, eps, rng):
    if rng.random() < eps:
        act = int(rng.integers(2))
    else:
        with torch.no_grad():
            act = q(torch.from_numpy(obs).to(DEVICE)).argmax().item()
    nxt = (0.95 * obs + np.array([0.1, -0.1, 0.05], dtype=np.float32) * (2 * act - 1)).astype(np.float32)
    return act, float(-np.abs(nxt).sum()), nxt


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    q = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 2)).to(DEVICE)
    opt = torch.optim.Adam(q.parameters(), lr=1e-3)
    memory, obs = Replay(200, 3), np.ones(3, dtype=np.float32)
    for t in range(80):
        act, rew, nxt = play(q, obs, 0.3, rng)
        memory.add(obs, act, rew, nxt)
        obs = nxt
        if t < 32:
            continue
        rows, (o, a, r, n) = memory.sample(16)
        with torch.no_grad():
            goal = r + 0.95 * q(n).max(dim=1).values
        error = goal - q(o).gather(1, a[:, None]).squeeze(1)
        opt.zero_grad()
        error.square().mean().backward()
        opt.step()
        memory.refresh(rows, error.detach().abs())
    print("mean priority", memory.prio[: memory.size].mean())


main()
