# cause: weights-moved-away-by-manager|module-left-on-other-device|dispatched-model-moved
# guilty: self.cell (state, action)
# line: 34
# repair: in set_aside remember the card of every parameter or sub-module and put each back there (or call model.spread(...) again), instead of model.to(home) with the card of the first parameter
"""Model-based control: a two-card world model and a policy take turns on the cards."""
from contextlib import contextmanager

import torch
import torch.nn as nn
import torch.nn.functional as F


class WorldModel(nn.Module):
    def __init__(self, obs=12, action=3, dim=32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(obs, dim), nn.ELU(), nn.Linear(dim, dim))
        self.cell = nn.GRUCell(dim + action, dim)
        self.decoder = nn.Linear(dim, obs)
        self.reward = nn.Linear(dim, 1)
        self.dim = dim

    def spread(self, first, second):
        self.first, self.second = torch.device(first), torch.device(second)
        self.encoder.to(self.first)
        for part in (self.cell, self.decoder, self.reward):
            part.to(self.second)
        return self

    def start(self, batch):
        return torch.zeros(batch, self.dim, device=self.second)

    def observe(self, state, obs, action):
        seen = self.encoder(obs.to(self.first)).to(self.second)
        return self.cell(torch.cat([seen, action.to(self.second)], dim=-1), state)

    def loss(self, obs, action, reward):
        state, total = self.start(obs.shape[0]), 0.0
        for t in range(obs.shape[1] - 1):
            state = self.observe(state, obs[:, t], action[:, t])
            total = total + F.mse_loss(self.decoder(state), obs[:, t + 1].to(self.second))
            total = total + F.mse_loss(self.reward(state)[:, 0], reward[:, t].to(self.second))
        return total / (obs.shape[1] - 1)


class Policy(nn.Module):
    def __init__(self, obs=12, action=3, dim=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs, dim), nn.ELU(), nn.Linear(dim, action), nn.Tanh())

    def forward(self, obs):
        return self.net(obs)


@contextmanager
def set_aside(model):
    """Free the cards for the other phase; the model comes back afterwards."""
    home = next(model.parameters()).device
    model.cpu()
    try:
        yield
    finally:
        model.to(home)


class Plant:
    def __init__(self, obs=12, action=3):
        g = torch.Generator().manual_seed(6)
        self.a = 0.9 * torch.eye(obs) + 0.05 * torch.randn(obs, obs, generator=g)
        self.b = 0.3 * torch.randn(action, obs, generator=g)

    def rollout(self, act, batch=8, steps=10):
        obs, rows = torch.randn(batch, self.a.shape[0]), []
        for _ in range(steps):
            action = act(obs)
            rows.append((obs, action, -obs.pow(2).mean(-1)))
            obs = (obs @ self.a + action @ self.b).clamp(-5, 5)
        return [torch.stack(x, dim=1) for x in zip(*rows)]


def train_world(model, optimizer, data, steps=3):
    for _ in range(steps):
        loss = model.loss(*data)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return loss.item()


def train_policy(policy, data, card, steps=3):
    """Regress towards the actions of the better half of the rollouts."""
    obs, action, reward = (x.to(card) for x in data)
    best = reward.sum(1).topk(obs.shape[0] // 2).indices
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(steps):
        loss = F.mse_loss(policy(obs[best]), action[best])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    plant = Plant()
    world = WorldModel().spread("cuda:0", "cuda:1")
    policy = Policy().to("cuda:1")
    optimizer = torch.optim.SGD(world.parameters(), lr=1e-2)
    data = plant.rollout(lambda o: torch.rand(o.shape[0], 3) * 2 - 1)
    for cycle in range(3):
        print(cycle, "world", round(train_world(world, optimizer, data), 4))
        with set_aside(world):
            print(cycle, "policy", round(train_policy(policy, data, "cuda:1"), 4))
        with torch.no_grad():
            data = plant.rollout(lambda o: policy(o.to("cuda:1")).cpu())


if __name__ == "__main__":
    main()
