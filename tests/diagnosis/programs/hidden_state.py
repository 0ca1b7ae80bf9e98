# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device|extra-input-on-wrong-device
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 8)
    def forward(self, xs):
        h = torch.zeros(xs.size(1), 8)
        for x in xs:
            h = self.cell(x, h)
        return h
Net().to("cuda:1")(torch.randn(5, 2, 4, device="cuda:1"))
