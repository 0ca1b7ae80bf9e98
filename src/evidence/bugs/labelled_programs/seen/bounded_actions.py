# cause: tensor-created-on-wrong-device
# guilty: self.high (self.low or self.space.high)
# after: sbi-dev/sbi#515
import torch
from torch import nn


class Box:
    def __init__(self, low, high):
        self.low = torch.tensor(low)
        self.high = torch.tensor(high)


class Actor(nn.Module):
    def __init__(self, seen, space):
        super().__init__()
        self.space = space
        self.body = nn.Sequential(nn.Linear(seen, 16), nn.ReLU(), nn.Linear(16, len(space.low)))

    def forward(self, seen):
        raw = self.body(seen).tanh()
        middle = (self.space.high + self.space.low) / 2
        half = (self.space.high - self.space.low) / 2
        return raw * half + middle


space = Box([-2.0, 0.0], [2.0, 1.0])
actor = Actor(3, space).to("cuda:0")
optimizer = torch.optim.Adam(actor.parameters())
for _ in range(2):
    action = actor(torch.randn(5, 3, device="cuda:0"))
    optimizer.zero_grad()
    (action**2).mean().backward()
    optimizer.step()
