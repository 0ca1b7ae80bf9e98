# cause: hard-coded-device|module-left-on-other-device
# guilty: ?
import kit
import torch

net = kit.build(4)
x = torch.randn(3, 4, device="cuda:1")
with torch.no_grad():
    print(net(x))
