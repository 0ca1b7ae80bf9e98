import torch
from torch import nn


class CentreLoss(nn.Module):
    def __init__(self, classes, size):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(classes, size))

    def forward(self, features, labels):
        return (features[:, None] - self.centres[None]).pow(2).sum(-1).mean() + 0 * labels.sum()


class Trainer:
    def __init__(self, model, criterion, device):
        self.model, self.criterion, self.device = model.to(device), criterion, device

    def step(self, x, y):
        x, y = x.to(self.device), y.to(self.device)
        self.criterion(self.model(x), y).backward()
