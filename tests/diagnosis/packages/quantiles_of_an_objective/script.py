# cause: tensor-created-on-wrong-device|loss-or-label-on-other-device
# guilty: self.quantiles
import kit
import torch
from torch import nn

net = nn.Linear(4, 3).to("cuda:0")
pinball = kit.Pinball().to("cuda:0")
loss = pinball(net(torch.randn(5, 4, device="cuda:0")), torch.randn(5, device="cuda:0"))
loss.backward()
