import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x, scale):
        with torch.autocast(x.device.type, enabled=False):
            return self.layer(x) * scale
