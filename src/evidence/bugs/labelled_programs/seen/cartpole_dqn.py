# cause: numpy-of-gpu-tensor
# guilty: q
import random
from collections import deque, namedtuple
import numpy as np
import torch
import torch.nn as nn

Transition = namedtuple("Transition", "s a r s2 done")
DEVICE = "cuda:0"


class PoleEnv:
    """A cheap stand-in for CartPole, enough to exercise the agent."""
    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, 4).astype(np.float32)
        self.t = 0
        return self.state

    def step(self, action):
        force = 1.0 if int(action) == 1 else -1.0
        self.state = self.state + np.array([0.02, force * 0.1, 0.01, -force * 0.05], np.float32)
        self.t += 1
        done = self.t >= 30 or abs(self.state[1]) > 1.0
        return self.state, 1.0, done


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.value = nn.Linear(64, 1)
        self.adv = nn.Linear(64, 2)

    def forward(self, x):
        h = self.body(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(-1, keepdim=True)


class Agent:
    def __init__(self):
        self.online = QNet().to(DEVICE)
        self.target = QNet().to(DEVICE)
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), 1e-3)
        self.memory = deque(maxlen=2000)

    def act(self, state, eps):
        if random.random() < eps:
            return random.randrange(2)
        with torch.no_grad():
            q = self.online(torch.from_numpy(state).to(DEVICE).unsqueeze(0)).squeeze(0)
        return int(np.argmax(q))

    def learn(self, batch_size=16, gamma=0.98):
        if len(self.memory) < batch_size:
            return None
        batch = Transition(*zip(*random.sample(self.memory, batch_size)))
        s = torch.from_numpy(np.stack(batch.s)).to(DEVICE)
        s2 = torch.from_numpy(np.stack(batch.s2)).to(DEVICE)
        a = torch.tensor(batch.a, device=DEVICE).unsqueeze(1)
        r = torch.tensor(batch.r, device=DEVICE)
        live = 1 - torch.tensor(batch.done, dtype=torch.float32, device=DEVICE)
        with torch.no_grad():
            y = r + gamma * live * self.target(s2).max(1).values
        loss = nn.functional.smooth_l1_loss(self.online(s).gather(1, a).squeeze(1), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.detach().cpu().numpy()


random.seed(1)
torch.manual_seed(1)
env, agent = PoleEnv(), Agent()
for episode in range(6):
    s, done, total = env.reset(), False, 0.0
    while not done:
        a = agent.act(s, eps=max(0.1, 1.0 - episode * 0.3))
        s2, r, done = env.step(a)
        agent.memory.append(Transition(s, a, r, s2, done))
        s, total = s2, total + r
        loss = agent.learn()
    if episode % 2 == 0:
        agent.target.load_state_dict(agent.online.state_dict())
    print(episode, total, loss)
