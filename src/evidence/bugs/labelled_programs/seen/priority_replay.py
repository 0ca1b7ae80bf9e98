# cause: numpy-of-gpu-tensor
# guilty: errors
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Replay:
    def __init__(self, size, obs):
        self.obs = np.zeros((size, obs), np.float32)
        self.nxt = np.zeros((size, obs), np.float32)
        self.act = np.zeros(size, np.int64)
        self.rew = np.zeros(size, np.float32)
        self.prio = np.zeros(size, np.float32)
        self.n = 0

    def add(self, o, a, r, o2):
        i = self.n % len(self.act)
        self.obs[i], self.act[i], self.rew[i], self.nxt[i] = o, a, r, o2
        self.prio[i] = self.prio.max() or 1.0
        self.n += 1

    def sample(self, k, rng):
        m = min(self.n, len(self.act))
        p = self.prio[:m] / self.prio[:m].sum()
        idx = rng.choice(m, k, p=p / p.sum())
        w = (m * p[idx]) ** -0.5
        return idx, [torch.from_numpy(a[idx]) for a in (self.obs, self.act, self.rew, self.nxt)], torch.from_numpy(w / w.max())

    def reprioritise(self, idx, errors, eps=1e-3):
        self.prio[idx] = np.abs(errors) + eps


class DQN:
    def __init__(self, obs, act, device):
        self.device = device
        mk = lambda: nn.Sequential(nn.Linear(obs, 32), nn.ReLU(), nn.Linear(32, act)).to(device)
        self.q, self.target = mk(), mk()
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), 1e-3)

    def td(self, o, a, r, o2):
        with torch.no_grad():
            y = r + 0.95 * self.target(o2).max(1).values
        return self.q(o).gather(1, a[:, None]).squeeze(1) - y

    def learn(self, buf, rng):
        idx, batch, w = buf.sample(16, rng)
        err = self.td(*(b.to(self.device) for b in batch))
        loss = (w.to(self.device) * F.huber_loss(err, torch.zeros_like(err), reduction="none")).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        buf.reprioritise(idx, err.detach())
        return loss.item()


rng = np.random.default_rng(0)
agent, buf = DQN(3, 2, "cuda:0"), Replay(200, 3)
o = rng.normal(size=3)
for t in range(60):
    a = int(rng.integers(2))
    o2 = 0.9 * o + 0.1 * rng.normal(size=3) + (a - 0.5) * 0.2
    buf.add(o, a, -abs(o2).sum(), o2)
    o = o2
    if t > 20 and t % 4 == 0:
        print(t, agent.learn(buf, rng))
