# cause: module-left-on-other-device
# guilty: ?
import kit
import torch
from torch import nn

suite = kit.Suite(kit.Coder(), nn.Linear(3, 2)).cuda()
print(suite.features(torch.randn(2, 6, device="cuda:0")).shape)
