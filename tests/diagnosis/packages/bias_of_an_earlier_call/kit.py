import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.q = nn.Linear(size, size)
        self._bias = None

    def forward(self, x):
        if self._bias is None or self._bias.shape[-1] != x.shape[1]:
            where = torch.arange(x.shape[1], device=x.device)
            self._bias = -(where[:, None] - where[None]).abs().float()
        scores = self.q(x) @ x.transpose(1, 2) + self._bias
        return scores.softmax(-1) @ x
