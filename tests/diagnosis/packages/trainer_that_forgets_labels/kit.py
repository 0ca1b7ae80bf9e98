import torch
from torch import nn


class Trainer:
    def __init__(self, model, device):
        self.model, self.device = model.to(device), device
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self, loader):
        for x, y in loader:
            x = x.to(self.device)
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
