# cause: extra-input-on-wrong-device
import torch
from torch import nn


class Conv(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(d, d)

    def forward(self, x, edge_index, edge_weight):
        h = self.lin(x)
        out = torch.zeros_like(h)
        messages = h[edge_index[0]] * edge_weight[:, None]
        return out.index_add(0, edge_index[1], messages)


conv = Conv(8).to("cuda:0")
x = torch.randn(5, 8).to("cuda:0")
edge_index = torch.randint(0, 5, (2, 12)).to("cuda:0")
edge_weight = torch.rand(12)
conv(x, edge_index, edge_weight)
