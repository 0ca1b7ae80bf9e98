import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self, size=8):
        super().__init__()
        self.front = nn.Linear(size, size)
        self.back = nn.Linear(size, size)

    @property
    def device(self):
        return next(self.parameters()).device

    def forward(self, x):
        x = self.front(x)
        x = self.back(x.to(next(self.back.parameters()).device))
        places = torch.linspace(0, 1, x.shape[1], device=self.device)
        return x * places[None, :]
