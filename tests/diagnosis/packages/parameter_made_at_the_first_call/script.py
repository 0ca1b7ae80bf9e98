# cause: module-left-on-other-device|tensor-created-on-wrong-device
# guilty: ?
import kit
import torch
from torch import nn

model = nn.Sequential(kit.Lazy(4), nn.ReLU()).to("cuda:0")
print(model(torch.randn(2, 4, device="cuda:0")).shape)
