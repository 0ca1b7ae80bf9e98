# cause: checkpoint-map-location
# guilty: self.mean
"""Learner trains on the second card; the actor picks its snapshots up on the first one."""
import os
import tempfile

import torch
from torch import nn


class RunningNorm:
    def __init__(self, dim, device):
        self.mean = torch.zeros(dim, device=device)
        self.var = torch.ones(dim, device=device)
        self.count = 1e-4

    def update(self, batch):
        n = batch.size(0)
        delta = batch.mean(0) - self.mean
        self.mean = self.mean + delta * n / (self.count + n)
        self.var = self.var + (batch.var(0) - self.var) * n / (self.count + n)
        self.count += n

    def __call__(self, obs):
        return ((obs - self.mean) / (self.var + 1e-8).sqrt()).clamp(-10, 10)

    def state(self):
        return {"mean": self.mean, "var": self.var, "count": self.count}

    def restore(self, state):
        self.__dict__.update(state)


def policy_net(obs=6, act=2):
    return nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, act), nn.Tanh())


def learn(path, device):
    policy, norm = policy_net().to(device), RunningNorm(6, device)
    opt = torch.optim.Adam(policy.parameters(), lr=3e-4)
    for _ in range(5):
        obs = torch.randn(32, 6).to(device) * 3 + 1
        norm.update(obs)
        loss = (policy(norm(obs)) - obs[:, :2].tanh()).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.save({"policy": policy.state_dict(), "norm": norm.state(), "step": 5}, path)


class Actor:
    def __init__(self, path, device):
        self.device = torch.device(device)
        snapshot = torch.load(path, weights_only=True)
        self.policy = policy_net().to(self.device)
        self.policy.load_state_dict(snapshot["policy"])
        self.norm = RunningNorm(6, self.device)
        self.norm.restore(snapshot["norm"])

    @torch.no_grad()
    def act(self, observation):
        obs = torch.as_tensor(observation, dtype=torch.float32).to(self.device)
        return self.policy(self.norm(obs)).cpu().tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    file = os.path.join(tempfile.mkdtemp(), "snapshot.pt")
    learn(file, "cuda:1")
    actor = Actor(file, "cuda:0")
    for _ in range(3):
        print(actor.act([0.1, 0.2, -0.3, 1.0, 2.0, 0.0]))
