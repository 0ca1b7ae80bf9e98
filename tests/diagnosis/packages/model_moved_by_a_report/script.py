# cause: weights-moved-away-by-manager|hard-coded-device|module-left-on-other-device
# guilty: 0.weight (0.bias)
import kit
import torch
from torch import nn

model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)).to("cuda:1")
print(kit.report(model, (2, 6)))
x = torch.randn(4, 6, device="cuda:1")
print(model(x).mean().item())
