import torch
from torch import nn


class Process(nn.Module):
    def __init__(self, train_x, train_y):
        super().__init__()
        self.train_x, self.train_y = train_x, train_y
        self.length = nn.Parameter(torch.ones(1))

    def kernel(self, a, b):
        return torch.exp(-(a[:, None] - b[None]).pow(2).sum(-1) / self.length)

    def forward(self, x):
        cross = self.kernel(x, self.train_x)
        return cross @ self.train_y
