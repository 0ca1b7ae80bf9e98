# cause: tensor-created-on-wrong-device
# guilty: KERNEL
import kit
import torch
from torch import nn

net = nn.Conv2d(3, 3, 1).to("cuda:0")
a = net(torch.rand(1, 3, 8, 8, device="cuda:0"))
kit.Sharpness()(a, torch.rand(1, 3, 8, 8, device="cuda:0")).backward()
