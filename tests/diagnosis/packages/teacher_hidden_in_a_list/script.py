# cause: module-left-on-other-device
# guilty: ?
import kit
import torch
from torch import nn

model = kit.Distilled(nn.Linear(4, 2), nn.Linear(4, 2)).to("cuda:0")
model(torch.randn(3, 4, device="cuda:0")).backward()
