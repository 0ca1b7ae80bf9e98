# cause: tensor-created-on-wrong-device
# guilty: self.cosines (self.sines)
# after: unit8co/darts#298
import math

import torch
from torch import nn


class Seasonal(nn.Module):
    def __init__(self, length, waves=3):
        super().__init__()
        self.coefficients = nn.Linear(length, 2 * waves)
        time = torch.arange(length) / length
        rates = torch.arange(1, waves + 1)[:, None]
        self.cosines = torch.cos(2 * math.pi * rates * time)
        self.sines = torch.sin(2 * math.pi * rates * time)

    def forward(self, x):
        a, b = self.coefficients(x).chunk(2, -1)
        return torch.einsum("bw,wt->bt", a, self.cosines) + torch.einsum("bw,wt->bt", b, self.sines)


seasonal = Seasonal(10).cuda()
x = torch.randn(4, 10).cuda()
loss = (x - seasonal(x)).abs().mean()
loss.backward()
