# cause: module-left-on-other-device|hard-coded-device
# guilty: self.body (self.online)
# line: 27
# repair: in MultiRewardAgent.__init__ hand the device over by keyword: QNet(obs_dim, n_actions, n_rewards, hidden, device=self.device), as the target is built; OR make `name` keyword-only in QNet so the slip is refused
"""Deep Q learning with a vector reward: one value per objective, mixed by preference weights."""
import random
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F


class QNet(nn.Module):
    def __init__(self, obs_dim, n_actions, n_rewards, hidden, name="q", device="cuda:0"):
        super().__init__()
        self.name = name
        self.n_actions, self.n_rewards = n_actions, n_rewards
        sizes = [obs_dim + n_rewards, *hidden]
        layers = []
        for a, b in zip(sizes, sizes[1:]):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.body = nn.Sequential(*layers, nn.Linear(sizes[-1], n_actions * n_rewards))
        self.to(device)

    def forward(self, obs, preference):
        flat = self.body(torch.cat([obs, preference], dim=-1))
        return flat.view(-1, self.n_actions, self.n_rewards)

    def describe(self):
        count = sum(p.numel() for p in self.parameters())
        return f"{self.name}: {count} weights"


class MineCart:
    """Collect two kinds of ore against fuel; three objectives."""

    def __init__(self, size=6):
        self.size = size

    def reset(self):
        self.state = torch.rand(self.size)
        return self.state

    def step(self, action):
        self.state = (self.state + 0.1 * torch.randn(self.size)).clamp(0, 1)
        reward = torch.stack([self.state[0], self.state[1], -self.state[2:].mean()]) * (1 + 0.1 * action)
        return self.state, reward, bool(self.state.mean() > 0.8)


class MultiRewardAgent:
    def __init__(self, obs_dim, n_actions, n_rewards, hidden=(48, 48), gamma=0.97, device="cuda:1"):
        self.device = torch.device(device)
        self.n_actions, self.n_rewards, self.gamma = n_actions, n_rewards, gamma
        self.online = QNet(obs_dim, n_actions, n_rewards, hidden, self.device)
        self.target = QNet(obs_dim, n_actions, n_rewards, hidden, name="target", device=self.device)
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=3e-4)
        self.memory = deque(maxlen=2000)
        self.epsilon = 0.3

    def sample_preference(self):
        return torch.distributions.Dirichlet(torch.ones(self.n_rewards)).sample().to(self.device)

    @torch.no_grad()
    def act(self, obs, preference):
        if random.random() < self.epsilon:
            return random.randrange(self.n_actions)
        q = self.online(obs[None].to(self.device), preference[None])
        return (q[0] @ preference).argmax().item()

    def remember(self, *transition):
        self.memory.append(transition)

    def learn(self, batch_size=16):
        batch = random.sample(self.memory, batch_size)
        obs, actions, rewards, following, done, prefs = zip(*batch)
        obs, following = torch.stack(obs).to(self.device), torch.stack(following).to(self.device)
        rewards, prefs = torch.stack(rewards).to(self.device), torch.stack(prefs)
        actions = torch.tensor(actions, device=self.device)
        alive = 1.0 - torch.tensor(done, device=self.device, dtype=torch.float32)
        with torch.no_grad():
            q_next = self.target(following, prefs)
            best = torch.einsum("bar,br->ba", q_next, prefs).argmax(1)
            chosen = q_next[torch.arange(batch_size, device=self.device), best]
            goal = rewards + self.gamma * alive[:, None] * chosen
        q = self.online(obs, prefs)[torch.arange(batch_size, device=self.device), actions]
        loss = F.smooth_l1_loss(q, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    random.seed(0)
    torch.manual_seed(0)
    env = MineCart()
    agent = MultiRewardAgent(env.size, n_actions=4, n_rewards=3, device="cuda:1")
    print(agent.target.describe())
    obs, preference = env.reset(), agent.sample_preference()
    for step in range(60):
        action = agent.act(obs, preference)
        following, reward, done = env.step(action)
        agent.remember(obs, action, reward, following, done, preference)
        obs = env.reset() if done else following
        if step >= 20:
            loss = agent.learn()
    print("last loss", round(loss, 4))


if __name__ == "__main__":
    main()
