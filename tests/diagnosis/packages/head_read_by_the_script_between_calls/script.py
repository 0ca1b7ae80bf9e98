# cause: offload-hook-bypassed|weights-moved-away-by-manager
# guilty: net.head.weight
import kit
import torch
from torch import nn

net = kit.Net()
streamed = kit.Streamed(net, torch.device("cuda:0"))
with torch.no_grad():
    h = streamed(torch.randn(2, 4, device="cuda:0"))
    print(nn.functional.linear(h, net.head.weight).shape)
