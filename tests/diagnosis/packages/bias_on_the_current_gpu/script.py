# cause: hard-coded-device|quantized-state-on-other-device
# guilty: self.shift
import kit
import torch
from torch import nn

layers = nn.Sequential(*(kit.Packed(nn.Linear(5, 5), 1) for _ in range(2)))
print(layers(torch.randn(3, 5, device="cuda:1")).shape)
