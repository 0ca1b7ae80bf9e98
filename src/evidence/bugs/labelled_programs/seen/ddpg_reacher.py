# cause: module-left-on-other-device
# guilty: self.target_critic
import copy
import random
import torch
import torch.nn as nn


def net(i, o, out=None):
    layers = [nn.Linear(i, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, o)]
    return nn.Sequential(*layers, *([out] if out else []))


class Reacher:
    def reset(self):
        self.goal, self.pos = torch.rand(2) * 2 - 1, torch.zeros(2)
        return torch.cat([self.pos, self.goal])

    def step(self, a):
        self.pos = (self.pos + 0.2 * a).clamp(-1, 1)
        return torch.cat([self.pos, self.goal]), -float((self.pos - self.goal).norm())


class DDPG:
    def __init__(self, device, gamma=0.95, tau=0.02):
        self.device, self.gamma, self.tau = device, gamma, tau
        self.actor = net(4, 2, nn.Tanh()).to(device)
        self.target_actor = copy.deepcopy(self.actor)
        critic = net(6, 1)
        self.target_critic = copy.deepcopy(critic).requires_grad_(False)
        self.critic = critic.to(device)
        self.a_opt = torch.optim.Adam(self.actor.parameters(), 1e-3)
        self.c_opt = torch.optim.Adam(self.critic.parameters(), 1e-3)

    @torch.no_grad()
    def act(self, s, noise):
        a = self.actor(s.to(self.device).unsqueeze(0))[0].cpu()
        return (a + noise * torch.randn(2)).clamp(-1, 1)

    def update(self, batch):
        s, a, r, s2 = (torch.stack(x).to(self.device) for x in zip(*batch))
        with torch.no_grad():
            a2 = self.target_actor(s2)
            q2 = self.target_critic(torch.cat([s2, a2], dim=1))
            y = r.unsqueeze(1) + self.gamma * q2
        c_loss = nn.functional.mse_loss(self.critic(torch.cat([s, a], dim=1)), y)
        self.c_opt.zero_grad()
        c_loss.backward()
        self.c_opt.step()
        a_loss = -self.critic(torch.cat([s, self.actor(s)], dim=1)).mean()
        self.a_opt.zero_grad()
        a_loss.backward()
        self.a_opt.step()
        self.soft(self.actor, self.target_actor)
        self.soft(self.critic, self.target_critic)
        return c_loss.item(), a_loss.item()

    @torch.no_grad()
    def soft(self, src, dst):
        for p, q in zip(src.parameters(), dst.parameters()):
            q.lerp_(p, self.tau)


random.seed(0)
torch.manual_seed(0)
agent, env, memory = DDPG(torch.device("cuda:0")), Reacher(), []
for episode in range(4):
    s, ret = env.reset(), 0.0
    for _ in range(15):
        a = agent.act(s, 0.2)
        s2, r = env.step(a)
        memory.append((s, a, torch.tensor(r), s2))
        s, ret = s2, ret + r
    losses = [agent.update(random.sample(memory, 12)) for _ in range(3)]
    print(episode, round(ret, 2), losses[-1])
