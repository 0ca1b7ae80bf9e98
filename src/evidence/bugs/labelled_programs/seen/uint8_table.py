# cause: quantized-state-on-other-device
# guilty: self.zero
import torch
from torch import nn


class Small(nn.Module):
    def __init__(self, weight):
        super().__init__()
        low, high = weight.min(), weight.max()
        self.step = nn.Parameter((high - low).view(1) / 255)
        self.zero = low.view(1)
        self.register_buffer("codes", ((weight - low) / self.step.detach()).round().to(torch.uint8))

    def forward(self, x):
        weight = self.codes.float() * self.step + self.zero
        return x @ weight.t()


net = Small(torch.randn(4, 6)).to("cuda:0")
print(net(torch.rand(2, 6, device="cuda:0")).shape)
