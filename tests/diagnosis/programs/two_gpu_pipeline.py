# cause: block-split-across-devices
import torch
from torch import nn


class Pipe(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to("cuda:0")
        self.decoder = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).to("cuda:1")

    def forward(self, x):
        h = self.encoder(x)
        y = self.decoder(h.to("cuda:1"))
        return y + h


Pipe()(torch.randn(2, 8, device="cuda:0"))
