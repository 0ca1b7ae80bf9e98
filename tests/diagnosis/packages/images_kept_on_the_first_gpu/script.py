# cause: hard-coded-device
# guilty: ?
import kit
import torch
from torch import nn

data = kit.Stored(8)
net = nn.Conv2d(3, 2, 3).to("cuda:1")
with torch.no_grad():
    print(net(data.batch(2)).shape)
