# cause: cache-or-beam-state-on-wrong-device
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)

    def forward(self, x, past_key_value=None):
        k, v = self.k(x), self.v(x)
        if past_key_value is not None:
            k = torch.cat([past_key_value[0], k], dim=1)
            v = torch.cat([past_key_value[1], v], dim=1)
        return k.mean(1, keepdim=True) + v.mean(1, keepdim=True), (k, v)


layer = Layer(8).to("cuda:1")
past = (torch.zeros(1, 3, 8), torch.zeros(1, 3, 8))
x = torch.randn(1, 1, 8, device="cuda:1")
for _ in range(3):
    x, past = layer(x, past)
