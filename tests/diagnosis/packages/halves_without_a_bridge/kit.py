import torch
from torch import nn


class Halves(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.front = nn.Linear(size, size)
        self.back = nn.Linear(size, 2)

    def spread(self, first, last):
        self.front.to(first)
        self.back.to(last)
        return self

    def forward(self, x):
        return self.back(torch.relu(self.front(x)))
