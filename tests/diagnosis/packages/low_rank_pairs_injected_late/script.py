# cause: adapter-weights-on-other-device
# guilty: ?
import kit
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).to("cuda:0")
kit.inject(model)
print(model(torch.randn(3, 4, device="cuda:0")).shape)
