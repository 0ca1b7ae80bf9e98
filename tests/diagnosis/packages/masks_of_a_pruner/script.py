# cause: optimizer-built-before-move|optimizer-state-on-other-device|module-left-on-other-device|tensor-created-on-wrong-device
# guilty: self.masks[name] (mask or self.masks)
import kit
import torch
from torch import nn

net = nn.Linear(6, 2)
pruner = kit.Pruner(net)
net.to("cuda:1")
net(torch.randn(3, 6, device="cuda:1")).sum().backward()
pruner.apply()
