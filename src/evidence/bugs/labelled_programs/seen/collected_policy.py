# cause: hard-coded-device|input-not-on-embedding-device|tensor-created-on-wrong-device
# guilty: obs
# after: thu-ml/tianshou#589
import numpy as np
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, seen, actions, device="cpu"):
        super().__init__()
        self.device = device
        self.body = nn.Sequential(nn.Linear(seen, 32), nn.ReLU(), nn.Linear(32, actions))

    def forward(self, obs, state=None):
        obs = torch.as_tensor(obs, dtype=torch.float32, device=self.device)
        return self.body(obs.flatten(1)), state


class Vacuum:
    def __init__(self, side=4):
        self.floor = np.zeros((side, side), dtype=np.float32)

    def step(self, action):
        self.floor[action // 4, action % 4] = 1
        return self.floor.copy(), float(self.floor.sum())


net = Net(16, 16).to("cuda" if torch.cuda.is_available() else "cpu")
optimizer = torch.optim.Adam(net.parameters())
world = Vacuum()
obs, reward = world.step(0)
for _ in range(3):
    logits, _ = net(obs[None])
    choice = torch.distributions.Categorical(logits=logits)
    action = choice.sample()
    obs, reward = world.step(int(action))
    optimizer.zero_grad()
    (-choice.log_prob(action) * reward).sum().backward()
    optimizer.step()
