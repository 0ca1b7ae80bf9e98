# cause: weights-moved-away-by-manager
# guilty: ?
import kit
import torch
from torch import nn

manager = kit.Manager("cuda:0")
net = manager.load(nn.Linear(4, 2))
x = torch.randn(3, 4, device="cuda:0")
with torch.no_grad():
    net(x)
    manager.release()
    print(net(x))
