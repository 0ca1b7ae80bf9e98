# cause: tensor-created-on-wrong-device
import math

import torch
from torch import nn


class PositionalEncoding(nn.Module):
    def __init__(self, dim, length=64):
        super().__init__()
        pe = torch.zeros(length, dim)
        position = torch.arange(length).unsqueeze(1)
        div = torch.exp(torch.arange(0, dim, 2) * (-math.log(10000.0) / dim))
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.pe = pe.unsqueeze(0)

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(100, 16)
        self.pos = PositionalEncoding(16)
        self.out = nn.Linear(16, 100)

    def forward(self, ids):
        return self.out(self.pos(self.emb(ids)))


net = Net().to("cuda:1")
net(torch.randint(0, 100, (2, 10), device="cuda:1"))
