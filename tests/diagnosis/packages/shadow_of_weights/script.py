# cause: optimizer-built-before-move|optimizer-state-on-other-device|module-left-on-other-device
# guilty: shadow (self.shadow[name] or self.shadow)
import kit
import torch
from torch import nn

net = nn.Linear(4, 2)
average = kit.Average(net)
net.to("cuda:0")
net(torch.randn(3, 4, device="cuda:0")).sum().backward()
average.update()
