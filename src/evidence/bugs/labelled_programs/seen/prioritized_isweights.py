# cause: loss-or-label-on-other-device|extra-input-on-wrong-device|tensor-created-on-wrong-device
# guilty: is_w (weights or batch.weights)
"""Prioritised double DQN on a toy corridor."""
import random
from collections import namedtuple

import numpy as np
import torch
from torch import nn

Batch = namedtuple("Batch", "obs act rew nxt done weights idx")


class SumBuffer:
    def __init__(self, size, obs_dim, device, alpha=0.6):
        self.obs = torch.zeros(size, obs_dim, device=device)
        self.nxt = torch.zeros(size, obs_dim, device=device)
        self.act = torch.zeros(size, dtype=torch.long, device=device)
        self.rew = torch.zeros(size, device=device)
        self.done = torch.zeros(size, device=device)
        self.prio = np.zeros(size, dtype=np.float64)
        self.size, self.n, self.alpha = size, 0, alpha

    def push(self, o, a, r, n, d):
        i = self.n % self.size
        self.obs[i], self.nxt[i], self.act[i], self.rew[i], self.done[i] = o, n, a, r, d
        self.prio[i] = self.prio.max() or 1.0
        self.n += 1

    def sample(self, k, beta=0.4):
        upto = min(self.n, self.size)
        p = self.prio[:upto] ** self.alpha
        p /= p.sum()
        idx = np.random.choice(upto, k, p=p)
        w = (upto * p[idx]) ** -beta
        weights = torch.tensor(w / w.max(), dtype=torch.float32)
        at = torch.from_numpy(idx).to(self.obs.device)
        return Batch(self.obs[at], self.act[at], self.rew[at], self.nxt[at], self.done[at], weights, idx)


def q_net(d, a):
    return nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Linear(64, a))


def main():
    dev = torch.device("cuda:0")
    online, target = q_net(4, 2).to(dev), q_net(4, 2).to(dev)
    target.load_state_dict(online.state_dict())
    opt = torch.optim.Adam(online.parameters(), lr=1e-3)
    mem = SumBuffer(256, 4, dev)
    for _ in range(64):
        mem.push(torch.randn(4, device=dev), random.randrange(2), random.random(), torch.randn(4, device=dev), 0.0)
    for _ in range(3):
        b = mem.sample(16)
        q = online(b.obs).gather(1, b.act[:, None]).squeeze(1)
        with torch.no_grad():
            best = online(b.nxt).argmax(1, keepdim=True)
            y = b.rew + 0.99 * (1 - b.done) * target(b.nxt).gather(1, best).squeeze(1)
        td = y - q
        is_w = b.weights
        loss = (is_w * td.pow(2)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        mem.prio[b.idx] = td.detach().abs().cpu().numpy() + 1e-5


if __name__ == "__main__":
    main()
