# cause: input-not-on-embedding-device
# guilty: ?
import torch
from torch import nn

device = torch.device("cuda:1")
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)).to(device)
net.to("cuda:0")
images = torch.rand(2, 3, 16, 16).to(device)
print(net(images).shape)
