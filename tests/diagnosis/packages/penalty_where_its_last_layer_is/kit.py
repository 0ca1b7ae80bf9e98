import torch
from torch import nn


class Noisy(nn.Linear):
    def penalty(self):
        return self.weight.square().sum()


class Objective(nn.Module):
    def __init__(self, model, loss, share=0.1):
        super().__init__()
        self.model, self.loss, self.share = model, loss, share

    def total(self):
        total = torch.zeros(1)
        for each in self.model.modules():
            if isinstance(each, Noisy):
                total = total.to(each.weight.device)
                total += each.penalty()
        return total

    def forward(self, x, y):
        objective = torch.zeros(1, device=x.device)
        objective += self.loss(self.model(x), y)
        objective += self.share * self.total()
        return objective
