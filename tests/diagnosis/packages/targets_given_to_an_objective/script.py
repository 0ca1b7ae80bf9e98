# cause: loss-or-label-on-other-device
# guilty: target
import kit
import torch
from torch import nn

net = nn.Linear(4, 1).to("cuda:0")
x, y = torch.randn(8, 4), torch.randint(0, 2, (8, 1)).float()
loss = kit.Focal().of(net(x.to("cuda:0")), y)
loss.backward()
