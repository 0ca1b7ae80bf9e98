# cause: module-left-on-other-device
# guilty: self.target
"""Double DQN on random transitions of a grid world."""
import copy
from collections import deque

import torch
from torch import nn


class Replay:
    """Transitions stay in host memory; a sample is sent where it is asked for."""

    def __init__(self, size):
        self.items = deque(maxlen=size)

    def add(self, *transition):
        self.items.append(transition)

    def sample(self, n, device):
        rows = torch.randint(0, len(self.items), (n,)).tolist()
        columns = zip(*(self.items[i] for i in rows))
        return [torch.as_tensor(c, dtype=torch.float32).to(device) for c in map(list, columns)]


class DoubleDQN(nn.Module):
    def __init__(self, obs=4, actions=3, gamma=0.95, tau=0.05):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(obs, 32), nn.ReLU(), nn.Linear(32, actions))
        self._frozen = (copy.deepcopy(self.online).requires_grad_(False),)
        self.register_buffer("gamma", torch.tensor(gamma))
        self.tau = tau

    @property
    def target(self):
        return self._frozen[0]

    @torch.no_grad()
    def bootstrap(self, reward, nxt, done):
        best = self.online(nxt).argmax(-1, keepdim=True)
        future = self.target(nxt).gather(-1, best).squeeze(-1)
        return reward + self.gamma * (1 - done) * future

    def loss(self, obs, action, reward, nxt, done):
        q = self.online(obs).gather(-1, action.long()[:, None]).squeeze(-1)
        return nn.functional.smooth_l1_loss(q, self.bootstrap(reward, nxt, done))

    @torch.no_grad()
    def track(self):
        for slow, fast in zip(self.target.parameters(), self.online.parameters()):
            slow.copy_(slow + self.tau * (fast.to(slow.device) - slow))


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:1")
    memory = Replay(500)
    for _ in range(100):
        s, n = torch.rand(4).tolist(), torch.rand(4).tolist()
        memory.add(s, float(torch.randint(0, 3, ())), s[0] - n[0], n, float(n[1] > 0.9))
    agent = DoubleDQN().to(device)
    opt = torch.optim.Adam(agent.parameters(), lr=1e-3)
    for _ in range(5):
        loss = agent.loss(*memory.sample(32, device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        agent.track()
    print(loss.item())


if __name__ == "__main__":
    main()
