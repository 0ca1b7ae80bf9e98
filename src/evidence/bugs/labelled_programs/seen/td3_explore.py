# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: noise (noise * scale)
import torch
import torch.nn as nn
from torch.distributions import Normal


class GaussianNoise:
    def __init__(self, mean, std, device=None):
        self.device = torch.device(device if device is not None else "cuda:0")
        self.dist = Normal(torch.tensor(mean, device=self.device),
                           torch.tensor(std, device=self.device))

    def sample(self, size):
        return self.dist.sample(size)


class TD3:
    def __init__(self, obs_dim, act_dim, device):
        self.device = device
        self.actor = nn.Sequential(nn.Linear(obs_dim, 64), nn.ReLU(),
                                   nn.Linear(64, act_dim), nn.Tanh()).to(device)
        self.exploration = GaussianNoise(0.0, 0.1)
        self.low, self.high = -1.0, 1.0

    @torch.no_grad()
    def act(self, states, step, warmup=5):
        if step < warmup:
            shape = (states.size(0), self.actor[2].out_features)
            return torch.empty(shape, device=self.device).uniform_(self.low, self.high)
        actions = self.actor(states)
        noise = self.exploration.sample(actions.shape)
        scale = max(0.05, 1.0 - step / 100)
        actions.add_(noise * scale)
        return actions.clamp_(self.low, self.high)


device = "cuda:1"
agent = TD3(11, 3, device)
states = torch.zeros(16, 11, device=device)
for step in range(30):
    actions = agent.act(states, step)
    drift = torch.randn(16, 11, device=device) * 0.1
    states = 0.95 * states + drift
    states[:, :3] += actions
print("mean state", states.mean().item())
