# cause: tensor-created-on-wrong-device|quantized-state-on-other-device
# guilty: self.scale (scale)
import kit
import torch
from torch import nn

model = kit.quantise(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))).to("cuda:0")
print(model(torch.randn(3, 4, device="cuda:0")))
