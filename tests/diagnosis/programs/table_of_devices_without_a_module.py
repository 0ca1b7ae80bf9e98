# cause: device-map-incomplete-or-wrong
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(self.b(torch.relu(self.a(x))))


PLACES = {"a": "cuda:0", "b": "cuda:1"}


def place(net, places):
    for name, child in net.named_children():
        if name in places:
            child.to(places[name])
    return net


class Mover(nn.Module):
    def __init__(self, inner, device):
        super().__init__()
        self.inner, self.device = inner, device

    def forward(self, x):
        return self.inner(x.to(self.device))


net = place(Net(), PLACES)
net.b = Mover(net.b, "cuda:1")
print(net(torch.randn(2, 4).to("cuda:0")).shape)
