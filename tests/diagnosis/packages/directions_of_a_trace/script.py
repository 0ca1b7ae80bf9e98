# cause: tensor-created-on-wrong-device
# guilty: v (vs)
import kit
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1)).to("cuda:0")
loss = net(torch.randn(5, 4, device="cuda:0")).square().mean()
print(len(kit.hutchinson(loss, list(net.parameters()))))
