# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device|metric-state-device|module-left-on-other-device
# guilty: self.rms.mean (mean or self.mean or rms.mean)
"""PPO rollouts with normalised observations; the environment lives on the host."""
import numpy as np
import torch
from torch import nn


class RunningMeanStd:
    def __init__(self, shape):
        self.mean = torch.zeros(shape)
        self.var = torch.ones(shape)
        self.count = 1e-4

    def update(self, batch):
        m, v, n = batch.mean(0), batch.var(0, unbiased=False), len(batch)
        d = m - self.mean
        total = self.count + n
        self.mean = self.mean + d * n / total
        self.var = (self.var * self.count + v * n + d.square() * self.count * n / total) / total
        self.count = total


class FakeVecEnv:
    def __init__(self, n, dim):
        self.n, self.dim = n, dim

    def reset(self):
        return np.random.randn(self.n, self.dim).astype(np.float32)

    def step(self, actions):
        return self.reset(), np.random.rand(self.n).astype(np.float32)


class ActorCritic(nn.Module):
    def __init__(self, dim, n_act):
        super().__init__()
        self.rms = RunningMeanStd((dim,))
        self.body = nn.Sequential(nn.Linear(dim, 64), nn.Tanh())
        self.pi, self.v = nn.Linear(64, n_act), nn.Linear(64, 1)

    def forward(self, obs):
        obs = ((obs - self.rms.mean) / (self.rms.var + 1e-8).sqrt()).clamp(-10, 10)
        h = self.body(obs)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


def rollout(env, net, steps, device):
    obs = env.reset()
    for _ in range(steps):
        net.rms.update(torch.from_numpy(obs))
        o = torch.from_numpy(obs).to(device)
        with torch.no_grad():
            dist, value = net(o)
            action = dist.sample()
        obs, reward = env.step(action.cpu().numpy())
        yield o, action, value, torch.from_numpy(reward).to(device)


device = torch.device("cuda:0")
net = ActorCritic(6, 3).to(device)
print(sum(r.sum().item() for *_, r in rollout(FakeVecEnv(4, 6), net, 3, device)))
