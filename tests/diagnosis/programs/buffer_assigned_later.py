# cause: tensor-created-on-wrong-device
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(n))
        self.stats = {"mean": torch.zeros(n), "var": torch.ones(n)}

    def forward(self, x):
        return (x - self.stats["mean"]) / self.stats["var"].sqrt() * self.scale


n = Norm(8).to("cuda:0")
n(torch.randn(2, 8, device="cuda:0"))
