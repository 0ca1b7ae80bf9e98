# cause: optimizer-state-on-other-device|tensor-created-on-wrong-device
# guilty: state['m'] (m)
import kit
import torch
from torch import nn

net = nn.Linear(4, 2).to("cuda:1")
optimizer = kit.Plain(net.parameters())
net(torch.randn(3, 4, device="cuda:1")).sum().backward()
optimizer.step()
