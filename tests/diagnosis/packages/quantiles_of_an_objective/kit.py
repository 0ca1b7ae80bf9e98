import torch
from torch import nn


class Pinball(nn.Module):
    def __init__(self, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.quantiles = torch.tensor(quantiles)

    def forward(self, guess, target):
        gap = target[:, None] - guess
        return torch.maximum(self.quantiles * gap, (self.quantiles - 1) * gap).mean()
