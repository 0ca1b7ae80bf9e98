# cause: extra-input-on-wrong-device|loss-or-label-on-other-device
# guilty: act.unsqueeze(1) (act)
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn

Transition = namedtuple("Transition", "obs act rew nxt done")


class Env:
    """Four numbers wander; reward for staying near zero."""

    def reset(self):
        self.s, self.t = torch.randn(4) * 0.1, 0
        return self.s.clone()

    def step(self, a):
        self.s = self.s + 0.1 * torch.randn(4) + (0.05 if a else -0.05)
        self.t += 1
        return self.s.clone(), float(-self.s.abs().sum()), self.t >= 20


class Memory:
    def __init__(self, capacity, device):
        self.buf, self.device = deque(maxlen=capacity), device

    def push(self, *a):
        self.buf.append(Transition(*a))

    def sample(self, n):
        batch = Transition(*zip(*random.sample(self.buf, n)))
        obs = torch.stack(batch.obs).to(self.device)
        nxt = torch.stack(batch.nxt).to(self.device)
        rew = torch.tensor(batch.rew, device=self.device)
        done = torch.tensor(batch.done, dtype=torch.float32, device=self.device)
        act = torch.tensor(batch.act)
        return obs, act, rew, nxt, done


def make_net():
    return nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))


def learn(q, target, mem, opt, gamma=0.95):
    obs, act, rew, nxt, done = mem.sample(16)
    with torch.no_grad():
        best = target(nxt).max(dim=1).values
        goal = rew + gamma * (1 - done) * best
    chosen = q(obs).gather(1, act.unsqueeze(1)).squeeze(1)
    loss = nn.functional.smooth_l1_loss(chosen, goal)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def run(device="cuda:1"):
    random.seed(0), torch.manual_seed(0)
    q, target = make_net().to(device), make_net().to(device)
    target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=1e-3)
    mem, env = Memory(500, device), Env()
    for episode in range(3):
        s, done = env.reset(), False
        while not done:
            if random.random() < 0.3:
                a = random.randrange(2)
            else:
                with torch.no_grad():
                    a = int(q(s.to(device)[None]).argmax())
            s2, r, done = env.step(a)
            mem.push(s, a, r, s2, done)
            s = s2
        if len(mem.buf) >= 16:
            print(episode, learn(q, target, mem, opt))


run()
