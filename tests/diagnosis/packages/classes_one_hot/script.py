# cause: tensor-created-on-wrong-device
# guilty: ?
import kit
import torch
from torch import nn

net = nn.Linear(4, 3).to("cuda:0")
y = torch.tensor([0, 1, 2], device="cuda:0")
with torch.no_grad():
    print(kit.confusion(net(torch.randn(3, 4, device="cuda:0")).argmax(1), y, 3))
