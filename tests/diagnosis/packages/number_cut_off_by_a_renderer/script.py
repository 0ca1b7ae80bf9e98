# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: depths
import kit
import torch
from torch import nn

field = nn.Linear(3, 2).to("cuda:1")
print(kit.march(torch.randn(5, 3, device="cuda:1"), field).shape)
