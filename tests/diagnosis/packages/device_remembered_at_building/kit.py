import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.device = torch.device("cuda:0" if torch.cuda.device_count() > 3 else "cpu")


class Forecaster(Base):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, size)

    def forward(self, x):
        steps = torch.arange(x.shape[1], device=self.device, dtype=torch.float)
        return self.layer(x) + steps[None, :, None]
