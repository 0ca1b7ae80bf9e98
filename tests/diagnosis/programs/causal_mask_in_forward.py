# cause: tensor-created-on-wrong-device
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-1, -2)
        mask = torch.triu(torch.ones(x.size(1), x.size(1)), diagonal=1).bool()
        scores = scores.masked_fill(mask, float("-inf"))
        return scores.softmax(-1) @ v


a = Attention(8).to("cuda:0")
a(torch.randn(2, 5, 8, device="cuda:0"))
