# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: powers (discounts(n), discounts(self.n))
# line: 47
# repair: give discounts a device argument so that it is part of the cache key: discounts(n, gamma, device) with torch.arange(n, device=device), called with rewards.device OR move the cached result: powers = discounts(self.n).to(rewards.device)
"""Asynchronous-style agent: the actor's net lives on one card and the learner's on the other."""
from collections import deque
from functools import lru_cache

import torch
import torch.nn as nn
import torch.nn.functional as F

GAMMA = 0.97


@lru_cache(maxsize=None)
def discounts(n, gamma=GAMMA):
    return gamma ** torch.arange(n, device="cuda")


def qnet(obs, actions):
    return nn.Sequential(nn.Linear(obs, 32), nn.ReLU(), nn.Linear(32, actions))


class NStepReplay:
    def __init__(self, capacity, n):
        self.rows, self.n = deque(maxlen=capacity), n

    def add(self, trajectory):
        obs, act, rew = trajectory
        for i in range(len(act) - self.n):
            self.rows.append((obs[i], act[i], rew[i:i + self.n], obs[i + self.n]))

    def sample(self, size, device):
        pick = torch.randperm(len(self.rows))[:size].tolist()
        obs, act, rew, nxt = zip(*(self.rows[i] for i in pick))
        return (torch.stack(obs).to(device), torch.stack(act).to(device),
                torch.stack(rew).to(device), torch.stack(nxt).to(device))


class ReturnEstimator:
    def __init__(self, n):
        self.n = n

    def __call__(self, rewards, bootstrap):
        powers = discounts(self.n)
        partial = (rewards * powers).sum(-1)
        return partial + GAMMA ** self.n * bootstrap


class Actor:
    def __init__(self, net, device, n):
        self.net, self.device = net.to(device), device
        self.estimate = ReturnEstimator(n)
        self.surprise = []

    @torch.no_grad()
    def rollout(self, steps, obs_dim):
        obs = torch.randn(steps, obs_dim, device=self.device)
        q = self.net(obs)
        act = q.argmax(-1)
        rew = -obs.pow(2).mean(-1)
        n = self.estimate.n
        target = self.estimate(rew[None, :n], q[n].max())
        self.surprise.append((target - q[0, act[0]]).abs().item())
        return obs.cpu(), act.cpu(), rew.cpu()


class Learner:
    def __init__(self, net, target, device, n):
        self.net, self.target, self.device = net.to(device), target.to(device), device
        self.estimate = ReturnEstimator(n)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def step(self, replay, size=16):
        obs, act, rew, nxt = replay.sample(size, self.device)
        with torch.no_grad():
            target = self.estimate(rew, self.target(nxt).max(-1).values)
        q = self.net(obs).gather(1, act[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, target)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


if __name__ == "__main__":
    actor = Actor(qnet(6, 3), "cuda:0", n=3)
    learner = Learner(qnet(6, 3), qnet(6, 3), "cuda:1", n=3)
    replay = NStepReplay(200, 3)
    for round_ in range(3):
        with torch.cuda.device(0):
            replay.add(actor.rollout(24, 6))
        with torch.cuda.device(1):
            print(round_, learner.step(replay))
        actor.net.load_state_dict({k: v.to("cuda:0") for k, v in learner.net.state_dict().items()})
