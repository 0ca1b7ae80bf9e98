# cause: extra-input-on-wrong-device|loss-or-label-on-other-device
# guilty: batch.reward (reward, returns)
# line: 68
# repair: SegmentReplay.sample should move the whole segment to the learner (as observations and actions are): reward=self.reward[rows].to(self.out_device), done=self.done[rows].to(self.out_device) OR in Learner.targets move reward and done to next_value.device
"""DQN from segments; the replay storage is on the second card, the learner on the first."""
from collections import namedtuple

import torch
import torch.nn.functional as F
from torch import nn

Segment = namedtuple("Segment", "obs action reward done next_obs")


class SegmentReplay:
    def __init__(self, size, obs_dim, length, storage="cuda:1", out_device="cuda:0"):
        self.size, self.length = size, length
        self.out_device = torch.device(out_device)
        self.obs = torch.zeros(size, obs_dim, device=storage)
        self.next_obs = torch.zeros(size, obs_dim, device=storage)
        self.action = torch.zeros(size, dtype=torch.long, device=storage)
        self.reward = torch.zeros(size, length, device=storage)
        self.done = torch.zeros(size, device=storage)
        self.filled = 0
        self.head = 0

    def add(self, obs, action, rewards, done, next_obs):
        i = self.head
        self.obs[i], self.next_obs[i] = obs, next_obs
        self.action[i] = action
        self.reward[i] = rewards
        self.done[i] = float(done)
        self.head = (i + 1) % self.size
        self.filled = min(self.filled + 1, self.size)

    def sample(self, count):
        rows = torch.randint(0, self.filled, (count,), device=self.obs.device)
        return Segment(self.obs[rows].to(self.out_device), self.action[rows].to(self.out_device),
                       self.reward[rows], self.done[rows], self.next_obs[rows].to(self.out_device))


class QNet(nn.Module):
    def __init__(self, obs_dim, actions):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, 32), nn.ReLU())
        self.value = nn.Linear(32, 1)
        self.advantage = nn.Linear(32, actions)

    def forward(self, obs):
        h = self.body(obs)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(-1, keepdim=True)


class Learner:
    def __init__(self, obs_dim, actions, length, device, gamma=0.97):
        self.q = QNet(obs_dim, actions).to(device)
        self.target = QNet(obs_dim, actions).to(device)
        self.target.load_state_dict(self.q.state_dict())
        self.gamma = gamma
        self.weights = gamma ** torch.arange(length, device=device).float()
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=1e-3)

    @torch.no_grad()
    def targets(self, batch):
        best = self.q(batch.next_obs).argmax(-1, keepdim=True)
        next_value = self.target(batch.next_obs).gather(1, best).squeeze(1)
        returns = (batch.reward * self.weights).sum(-1)
        return returns + self.gamma ** len(self.weights) * (1 - batch.done) * next_value

    def update(self, batch):
        chosen = self.q(batch.obs).gather(1, batch.action.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(chosen, self.targets(batch))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def explore(replay, learner, steps, obs_dim, actions, length, device):
    obs = torch.randn(obs_dim)
    for step in range(steps):
        with torch.no_grad():
            action = int(learner.q(obs.to(device)).argmax())
        next_obs = 0.9 * obs + 0.1 * torch.randn(obs_dim)
        rewards = -next_obs[:length].abs()
        replay.add(obs, action, rewards, step % 10 == 9, next_obs)
        obs = next_obs


if __name__ == "__main__":
    torch.manual_seed(0)
    learner = Learner(6, 3, length=3, device="cuda:0")
    replay = SegmentReplay(64, 6, length=3)
    for episode in range(3):
        explore(replay, learner, 20, 6, 3, 3, "cuda:0")
        print(episode, learner.update(replay.sample(16)))
