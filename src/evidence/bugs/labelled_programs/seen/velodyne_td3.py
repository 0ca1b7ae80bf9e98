# cause: extra-input-on-wrong-device|loss-or-label-on-other-device
# guilty: done (done_bool or 1 - done)
"""TD3 for lidar navigation; priorities of new transitions are computed one by one."""
import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Critic(nn.Module):
    def __init__(self, s, a):
        super().__init__()
        self.l1, self.l2, self.l3 = nn.Linear(s + a, 64), nn.Linear(64, 64), nn.Linear(64, 1)

    def forward(self, s, a):
        return self.l3(F.relu(self.l2(F.relu(self.l1(torch.cat([s, a], 1))))))


class Actor(nn.Module):
    def __init__(self, s, a):
        super().__init__()
        self.l1, self.l2 = nn.Linear(s, 64), nn.Linear(64, a)

    def forward(self, s):
        return torch.tanh(self.l2(F.relu(self.l1(s))))


class TD3:
    def __init__(self, s, a):
        self.actor = Actor(s, a).to(device)
        self.actor_target = copy.deepcopy(self.actor)
        self.critic = Critic(s, a).to(device)
        self.critic_target = copy.deepcopy(self.critic)
        self.discount = 0.99

    def get_action(self, state):
        state = torch.Tensor(state.reshape(1, -1)).to(device)
        return self.actor(state).cpu().data.numpy().flatten()

    def to_priority(self, state, action, reward, done, next_state):
        state = torch.Tensor(state).to(device).view(1, -1)
        action = torch.Tensor(action).to(device).view(1, -1)
        next_state = torch.Tensor(next_state).to(device).view(1, -1)
        reward = torch.Tensor([reward]).to(device)
        done = torch.Tensor([done])
        with torch.no_grad():
            target_q = self.critic_target(next_state, self.actor_target(next_state))
            target_q = reward + self.discount * (1 - done) * target_q
            return (target_q - self.critic(state, action)).abs().item()


agent = TD3(24, 2)
buffer = []
s = np.random.randn(24)
for t in range(4):
    a = agent.get_action(s)
    s2, r, d = np.random.randn(24), float(np.random.rand()), t == 3
    buffer.append((agent.to_priority(s, a, r, float(d), s2), s, a, r, d, s2))
    s = s2
print([round(b[0], 3) for b in buffer])
