# cause: device-from-unordered-set
import torch
from torch import nn


def home(net):
    found = set(p.device for p in net.parameters())
    return next(iter(found))


net = nn.ModuleDict({"a": nn.Linear(4, 4).to("cuda:1"), "b": nn.Linear(4, 2).to("cuda:0")})
where = home(net)
x = torch.randn(2, 4).to(where)
h = net["a"](x)
print(net["b"](h.to("cuda:0")))
