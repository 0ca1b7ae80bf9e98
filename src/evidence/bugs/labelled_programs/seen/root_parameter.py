# cause: block-split-across-devices
# guilty: ?
import torch
from accelerate import dispatch_model
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.zeros(1, 6, 8))
        self.embed = nn.Embedding(50, 8)
        self.layer = nn.Linear(8, 8)

    def forward(self, ids):
        return self.layer(self.embed(ids) + self.position)


model = dispatch_model(Encoder(), {"position": 0, "embed": 1, "layer": 1}, main_device="cuda:0")
model(torch.zeros(1, 6, dtype=torch.long))
