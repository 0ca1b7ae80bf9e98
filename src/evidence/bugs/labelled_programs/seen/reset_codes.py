# cause: tensor-created-on-wrong-device|metric-state-device|module-left-on-other-device
# guilty: self.usage
# after: lucidrains/vector-quantize-pytorch#66
import torch
from torch import nn


class Quantizer(nn.Module):
    def __init__(self, count=6, width=4):
        super().__init__()
        self.codes = nn.Parameter(torch.randn(count, width))
        self.register_buffer("usage", torch.zeros(count))

    def restart(self):
        self.usage = torch.zeros(len(self.usage))

    def forward(self, x):
        near = torch.cdist(x, self.codes).argmin(-1)
        counts = torch.bincount(near.flatten(), minlength=len(self.codes)).float()
        self.usage = 0.9 * self.usage + 0.1 * counts
        return self.codes[near]


quantizer = Quantizer().to("cuda:0")
for epoch in range(2):
    for _ in range(2):
        quantizer(torch.randn(10, 4, device="cuda:0"))
    quantizer.restart()
print(quantizer.usage)
