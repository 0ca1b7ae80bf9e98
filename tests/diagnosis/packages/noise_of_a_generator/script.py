# cause: generator-on-other-device|generator-or-default-device
# guilty: ?
import kit
import torch
from torch import nn

net = nn.Linear(4, 2).to("cuda:0")
print(kit.Dropper()(net(torch.randn(3, 4, device="cuda:0"))).shape)
