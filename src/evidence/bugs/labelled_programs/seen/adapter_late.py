# cause: adapter-weights-on-other-device|module-left-on-other-device
# guilty: ?
import torch
from torch import nn


class Low(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).to("cuda:0")
model[2] = Low(model[2], 2)
model(torch.randn(2, 8, device="cuda:0"))
