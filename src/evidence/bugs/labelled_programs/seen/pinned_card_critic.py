# cause: hard-coded-device|input-not-on-embedding-device
# guilty: parts (state, torch.cat(parts, dim=-1))
# line: 27
# repair: let Prefetcher take a device and use item.to(device) instead of .cuda(), which follows the current device OR use a `with torch.cuda.device(...)` block in OnCard.__init__ in place of torch.cuda.set_device
"""Offline actor-critic: components claim a card when they are built, a prefetcher feeds them."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class OnCard(nn.Module):
    """Base class of all nets: builds the layers straight on their card."""

    card = 0

    def __init__(self, widths):
        super().__init__()
        torch.cuda.set_device(self.card)
        layers = []
        for i, o in zip(widths, widths[1:]):
            layers += [nn.Linear(i, o).cuda(), nn.SiLU()]
        self.net = nn.Sequential(*layers[:-1])

    def forward(self, *parts):
        return self.net(torch.cat(parts, dim=-1))


class Actor(OnCard):
    card = 0


class Critic(OnCard):
    card = 1


class Prefetcher:
    def __init__(self, n, batch):
        self.n, self.batch = n, batch
        self.state, self.action = torch.randn(n, 6), torch.rand(n, 2) * 2 - 1
        self.reward = -(self.state[:, :2] - self.action).pow(2).sum(1, keepdim=True)

    def __iter__(self):
        for rows in torch.randperm(self.n).split(self.batch):
            yield tuple(item[rows].cuda() for item in (self.state, self.action, self.reward))


class OfflineLearner:
    def __init__(self, widths=(32,)):
        self.actor = Actor([6, *widths, 2])
        self.critic = Critic([8, *widths, 1])
        self.frozen = copy.deepcopy(self.critic).requires_grad_(False)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def fit_critic(self, state, action, reward):
        device = self.critic.net[0].weight.device
        value = self.critic(state.to(device), action.to(device))
        loss = F.mse_loss(value, reward.to(device))
        self.opt_c.zero_grad()
        loss.backward()
        self.opt_c.step()
        for slow, fast in zip(self.frozen.parameters(), self.critic.parameters()):
            slow.lerp_(fast.detach(), 0.05)
        return loss.item()

    def fit_actor(self, state):
        device = self.critic.net[0].weight.device
        action = torch.tanh(self.actor(state))
        loss = -self.frozen(state.to(device), action.to(device)).mean()
        self.opt_a.zero_grad()
        loss.backward()
        self.opt_a.step()
        return loss.item()

    def epoch(self, loader):
        for state, action, reward in loader:
            critic_loss = self.fit_critic(state, action, reward)
            actor_loss = self.fit_actor(state)
        return critic_loss, actor_loss


if __name__ == "__main__":
    torch.manual_seed(0)
    learner, loader = OfflineLearner(), Prefetcher(96, 32)
    for epoch in range(3):
        print(epoch, learner.epoch(loader))
