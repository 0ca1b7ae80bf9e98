# cause: tensor-created-on-wrong-device|hard-coded-device
# guilty: rows
# line: 37
# repair: in UniformSampler.draw make the indices on the storage's device (pass storage.frames.device to the sampler when it is built) OR in FrameRing.gather use rows = rows.to(self.frames.device)
"""Off-policy agent on the first card, its frame memory on the second one."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class UniformSampler:
    def __init__(self, batch, device):
        self.batch, self.device = batch, device

    def draw(self, filled):
        return torch.randint(0, filled, (self.batch,), device=self.device)


class FrameRing:
    def __init__(self, capacity, shape, device):
        self.capacity, self.cursor, self.filled = capacity, 0, 0
        self.frames = torch.zeros(capacity, *shape, dtype=torch.uint8, device=device)
        self.following = torch.zeros_like(self.frames)
        self.actions = torch.zeros(capacity, dtype=torch.long, device=device)
        self.rewards = torch.zeros(capacity, device=device)

    def push(self, frame, action, reward, following):
        i = self.cursor
        self.frames[i] = (frame * 255).to(torch.uint8)
        self.following[i] = (following * 255).to(torch.uint8)
        self.actions[i] = action
        self.rewards[i] = reward
        self.cursor = (i + 1) % self.capacity
        self.filled = min(self.filled + 1, self.capacity)

    def gather(self, rows):
        frames = self.frames[rows].float() / 255
        following = self.following[rows].float() / 255
        return frames, self.actions[rows], self.rewards[rows], following


class QNet(nn.Module):
    def __init__(self, actions=4):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 49, actions))

    def forward(self, x):
        return self.body(x)


class Agent:
    def __init__(self, learner="cuda:0", storage="cuda:1"):
        self.learner = torch.device(learner)
        self.q = QNet().to(self.learner)
        self.target = QNet().to(self.learner)
        self.target.load_state_dict(self.q.state_dict())
        self.ring = FrameRing(256, (1, 16, 16), torch.device(storage))
        self.sampler = UniformSampler(16, self.learner)
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=1e-3)

    @torch.no_grad()
    def act(self, frame, epsilon=0.2):
        if torch.rand(()).item() < epsilon:
            return int(torch.randint(0, 4, ()))
        return int(self.q(frame[None].to(self.learner)).argmax(-1))

    def learn(self):
        rows = self.sampler.draw(self.ring.filled)
        batch = [t.to(self.learner) for t in self.ring.gather(rows)]
        frames, actions, rewards, following = batch
        with torch.no_grad():
            goal = rewards + 0.99 * self.target(following).amax(-1)
        value = self.q(frames).gather(1, actions[:, None])[:, 0]
        loss = F.smooth_l1_loss(value, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    agent = Agent()
    frame = torch.rand(1, 16, 16)
    for step in range(64):
        following = torch.rand(1, 16, 16)
        action = agent.act(frame)
        agent.ring.push(frame, action, float(action == 0), following)
        frame = following
        if step >= 32 and step % 8 == 0:
            print(step, agent.learn())
