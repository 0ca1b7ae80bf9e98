# cause: optimizer-state-on-other-device
# guilty: ?
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, obs=4, actions=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 32), nn.Tanh())
        self.pi = nn.Linear(32, actions)

    def forward(self, obs):
        return torch.distributions.Categorical(logits=self.pi(self.body(obs)))


class Corridor:
    def reset(self):
        self.s = torch.zeros(4)
        self.t = 0
        return self.s

    def step(self, a):
        self.s = self.s + (0.1 if a else -0.1)
        self.t += 1
        return self.s, float(self.s[0]), self.t >= 8


def rollout(env, policy, device):
    obs, logps, rewards, done = env.reset(), [], [], False
    while not done:
        dist = policy(obs.to(device))
        a = dist.sample()
        obs, r, done = env.step(int(a))
        logps.append(dist.log_prob(a))
        rewards.append(r)
    returns = torch.tensor(rewards).flip(0).cumsum(0).flip(0).to(device)
    return -(torch.stack(logps) * returns).mean()


def improve(policy, optimizer, device, n):
    for _ in range(n):
        loss = rollout(Corridor(), policy, device)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3, foreach=False)
improve(policy, optimizer, "cpu", 2)   # a little warm-up while the GPU is busy
policy.to("cuda:1")
improve(policy, optimizer, "cuda:1", 4)
print("done")
