import torch
from torch import nn


class Codes(nn.Module):
    def __init__(self, count, size):
        super().__init__()
        self.table = nn.Embedding(count, size)
        self.register_buffer("usage", torch.zeros(count))

    def restart(self):
        self.usage = torch.zeros(self.table.num_embeddings)

    def forward(self, z):
        near = torch.cdist(z, self.table.weight).argmin(1)
        self.usage = self.usage + nn.functional.one_hot(near, self.table.num_embeddings).sum(0)
        return self.table(near)
