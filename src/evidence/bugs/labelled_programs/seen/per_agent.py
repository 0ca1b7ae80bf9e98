# cause: numpy-of-gpu-tensor
# guilty: errors (errors.abs().clamp(min=1e-3) or errors.abs())
"""DQN with prioritised replay on a made-up chain environment."""
import random

import numpy as np
import torch
from torch import nn


class Chain:
    def __init__(self, n=8):
        self.n, self.at = n, 0

    def reset(self):
        self.at = 0
        return self.encode()

    def encode(self):
        v = np.zeros(self.n, dtype=np.float32)
        v[self.at] = 1.0
        return v

    def step(self, action):
        self.at = min(self.at + 1, self.n - 1) if action == 1 else max(self.at - 1, 0)
        done = self.at == self.n - 1
        return self.encode(), float(done), done


class Replay:
    def __init__(self, size, alpha=0.6):
        self.size, self.alpha = size, alpha
        self.items, self.priority = [], np.ones(size, dtype=np.float64)

    def push(self, item):
        if len(self.items) < self.size:
            self.items.append(item)

    def sample(self, n):
        p = self.priority[: len(self.items)] ** self.alpha
        index = np.random.choice(len(self.items), n, p=p / p.sum())
        columns = zip(*(self.items[i] for i in index))
        return index, [torch.from_numpy(np.array(c, dtype=np.float32)) for c in columns]

    def update(self, index, errors):
        self.priority[index] = errors.abs().clamp(min=1e-3).numpy()


class Agent:
    def __init__(self, n, device):
        self.device = device
        self.q = nn.Sequential(nn.Linear(n, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)
        self.optim = torch.optim.Adam(self.q.parameters(), lr=1e-3)

    def act(self, state, eps=0.3):
        if random.random() < eps:
            return random.randrange(2)
        with torch.no_grad():
            return int(self.q(torch.from_numpy(state).to(self.device)).argmax())

    def learn(self, replay):
        index, batch = replay.sample(16)
        s, a, r, s2, d = (t.to(self.device) for t in batch)
        with torch.no_grad():
            goal = r + 0.95 * (1 - d) * self.q(s2).amax(1)
        error = goal - self.q(s).gather(1, a.long().unsqueeze(1)).squeeze(1)
        loss = error.pow(2).mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        replay.update(index, error.detach())
        return loss.item()


random.seed(0), np.random.seed(0), torch.manual_seed(0)
env, replay = Chain(), Replay(200)
agent = Agent(env.n, torch.device("cuda"))
state = env.reset()
for t in range(60):
    action = agent.act(state)
    following, reward, done = env.step(action)
    replay.push((state, action, reward, following, done))
    state = env.reset() if done else following
    if t > 20 and t % 5 == 0:
        print(t, round(agent.learn(replay), 5))
