# cause: quantized-state-on-other-device
import torch
from torch import nn


class Packed(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.shape = weight.shape
        self.scale = weight.abs().amax() / 127
        self.step = (weight.abs().amax(1, keepdim=True) / 127).clamp(min=1e-8)
        self.register_buffer("packed", (weight / self.step).round().to(torch.int8).flatten())

    def forward(self, x):
        whole = self.packed.view(self.shape).float()
        return x @ (whole * self.step).T


net = nn.Sequential(Packed(torch.randn(6, 4)), nn.ReLU()).to("cuda:1")
for _ in range(2):
    net(torch.ones(3, 4, device="cuda:1"))
