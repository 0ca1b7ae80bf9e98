# cause: hard-coded-device
# guilty: reward
import random
from collections import deque

import torch
from torch import nn
import torch.nn.functional as F


class ReplayBuffer:
    def __init__(self, size=500):
        self.data = deque(maxlen=size)

    def push(self, s, a, r, s2, d):
        self.data.append((s, a, r, s2, d))

    def sample(self, n, like):
        s, a, r, s2, d = zip(*random.sample(self.data, n))
        states, nexts = torch.stack(s).to(like.device), torch.stack(s2).to(like.device)
        actions = torch.tensor(a, device=like.device)
        rewards = torch.tensor(r).float().cuda()
        alive = 1 - torch.tensor(d, device=like.device).float()
        return states, actions, rewards, nexts, alive


def q_net():
    return nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 2))


def main():
    random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda:1")
    online, target = q_net().to(device), q_net().to(device)
    target.load_state_dict(online.state_dict())
    opt = torch.optim.Adam(online.parameters(), lr=1e-3)
    memory, state = ReplayBuffer(), torch.zeros(3)
    for step in range(60):
        with torch.no_grad():
            greedy = online(state.to(device)).argmax().item()
        action = random.randrange(2) if random.random() < 0.3 else greedy
        nxt = state + torch.randn(3) * 0.1 + (0.1 if action else -0.1)
        memory.push(state, action, nxt.sum().item(), nxt, step % 10 == 9)
        state = torch.zeros(3) if step % 10 == 9 else nxt
        if step < 32:
            continue
        s, a, reward, s2, alive = memory.sample(16, online[0].weight)
        with torch.no_grad():
            future = target(s2).max(1).values * alive
            goal = torch.add(reward, future, alpha=0.99)
        loss = F.smooth_l1_loss(online(s).gather(1, a[:, None]).squeeze(1), goal)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
