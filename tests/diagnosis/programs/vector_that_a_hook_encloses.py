# cause: extra-input-on-wrong-device
import torch
from torch import nn

net = nn.Sequential(nn.Linear(6, 6).to("cuda:0"), nn.Identity(), nn.Linear(6, 6).to("cuda:1"))
net[1].register_forward_pre_hook(lambda module, args: (args[0].to("cuda:1"),))


def steer(layer, vector):
    def added(module, args, output):
        return output + 0.5 * vector

    return layer.register_forward_hook(added)


with torch.no_grad():
    vector = net[0](torch.ones(1, 6, device="cuda:0"))[0]
    steer(net[2], vector)
    net(torch.randn(3, 6, device="cuda:0"))
