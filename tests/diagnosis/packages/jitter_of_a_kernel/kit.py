import torch
from torch import nn


class Kernel(nn.Module):
    def __init__(self):
        super().__init__()
        self.length = nn.Parameter(torch.ones(1))

    def forward(self, x):
        gap = (x[:, None] - x[None]).pow(2).sum(-1)
        return torch.exp(-gap / self.length)


class Process(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = Kernel()

    def marginal(self, x):
        covariance = self.kernel(x)
        jitter = 1e-3 * torch.eye(len(x))
        return torch.linalg.cholesky(covariance + jitter)
