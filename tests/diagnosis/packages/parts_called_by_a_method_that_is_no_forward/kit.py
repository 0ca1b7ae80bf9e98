import torch
from torch import nn


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Linear(6, 3)
        self.up = nn.Linear(3, 6)

    def encode(self, x):
        return self.down(x)

    def decode(self, z):
        return self.up(z)


class Suite:
    def __init__(self, coder, head):
        self.coder, self.head = coder, head

    def cuda(self, index=0):
        self.head.cuda(index)
        return self

    def features(self, x):
        return self.head(self.coder.encode(x))
