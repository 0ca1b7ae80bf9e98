# cause: rope-table-on-wrong-device|tensor-created-on-wrong-device
import torch
from torch import nn
class Rotary(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.inv_freq = 1.0 / (10000 ** (torch.arange(0, dim, 2).float() / dim))
    def forward(self, positions):
        return torch.outer(positions.float(), self.inv_freq)
r = Rotary(8).to("cuda:0")
r(torch.arange(5, device="cuda:0"))
