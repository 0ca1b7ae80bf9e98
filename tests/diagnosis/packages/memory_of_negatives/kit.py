import torch
from torch import nn


class Contrast(nn.Module):
    def __init__(self, encoder, size, length=8):
        super().__init__()
        self.encoder = encoder
        self.queue = torch.randn(length, size)

    def forward(self, x, y):
        q, k = self.encoder(x), self.encoder(y)
        near = (q * k).sum(1, keepdim=True)
        far = q @ self.queue.T
        self.queue = torch.cat([k.detach(), self.queue])[: len(self.queue)]
        return torch.cat([near, far], 1)
