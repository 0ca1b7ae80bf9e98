# cause: tensor-created-on-wrong-device|extra-input-on-wrong-device
# guilty: a (action)
import random
from collections import deque
import torch
import torch.nn as nn


class Memory:
    def __init__(self, cap=200):
        self.data = deque(maxlen=cap)

    def push(self, *row):
        self.data.append(row)

    def draw(self, n, device):
        rows = random.sample(self.data, n)
        s, a, r, s2 = zip(*rows)
        state = torch.stack(s).to(device)
        action = torch.tensor(a).unsqueeze(1)
        reward = torch.tensor(r, dtype=torch.float32).to(device)
        after = torch.stack(s2).to(device)
        return state, action, reward, after


class Agent:
    def __init__(self, device):
        self.device = device
        self.q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3)).to(device)
        self.target = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3)).to(device)
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.RMSprop(self.q.parameters(), 1e-3)
        self.memory = Memory()

    def act(self, s):
        if random.random() < 0.3:
            return random.randrange(3)
        with torch.no_grad():
            return self.q(s.to(self.device)).argmax().item()

    def learn(self, n=16, gamma=0.9):
        s, a, r, s2 = self.memory.draw(n, self.device)
        value = self.q(s).gather(1, a).squeeze(1)
        with torch.no_grad():
            goal = r + gamma * self.target(s2).max(1).values
        loss = nn.functional.smooth_l1_loss(value, goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


random.seed(1)
torch.manual_seed(1)
agent = Agent(torch.device("cuda:0"))
s = torch.randn(4)
for t in range(40):
    a = agent.act(s)
    s2 = s + 0.1 * (a - 1)
    agent.memory.push(s, a, -s2.abs().sum().item(), s2)
    s = s2
    if t > 20:
        loss = agent.learn()
print("loss", loss)
