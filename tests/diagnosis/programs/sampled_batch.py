# cause: extra-input-on-wrong-device
import random

import torch
from torch import nn


class Buffer:
    def __init__(self, device):
        self.device, self.rows = device, [([0.1 * i, 0.2], i % 2, 1.0) for i in range(16)]

    def batch(self, n):
        states, choices, gains = zip(*random.sample(self.rows, n), strict=True)
        gains = torch.tensor(gains, device=self.device)
        choices = torch.tensor(choices)
        return torch.tensor(states, device=self.device), choices, gains


value = nn.Linear(2, 2).to("cuda:1")
states, choices, gains = Buffer("cuda:1").batch(4)
error = (value(states).gather(1, choices[:, None])[:, 0] - gains).square().mean()
error.backward()
