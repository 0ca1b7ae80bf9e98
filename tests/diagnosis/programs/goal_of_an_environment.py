# cause: extra-input-on-wrong-device
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.see, self.act = nn.Linear(6, 16), nn.Linear(16 + 2, 3)

    def forward(self, obs, goal):
        h = torch.relu(self.see(obs))
        return torch.distributions.Categorical(logits=self.act(torch.cat([h, goal], -1)))


class World:
    def __init__(self):
        self.goal = torch.rand(2)

    def reset(self):
        self.t = 0
        return {"obs": torch.rand(6), "goal": self.goal}

    def step(self, action):
        self.t += 1
        return {"obs": torch.rand(6), "goal": self.goal}, float(action == 1), self.t > 3


def rollout(world, policy, device):
    seen, total, done = world.reset(), 0.0, False
    while not done:
        obs = seen["obs"].to(device)
        action = policy(obs, seen["goal"]).sample()
        seen, r, done = world.step(int(action))
        total += r
    return total


device = torch.device("cuda:1")
print(rollout(World(), Policy().to(device), device))
