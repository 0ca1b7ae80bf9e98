# cause: adapter-weights-on-other-device
import torch
from torch import nn


class Lora:
    def __init__(self, layer, rank=2, scale=0.5):
        self.down = torch.randn(rank, layer.in_features) * 0.02
        self.up = torch.randn(layer.out_features, rank) * 0.02
        self.scale = scale

    @torch.no_grad()
    def merge(self, layer):
        layer.weight += self.scale * (self.up @ self.down)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 12), nn.Linear(12, 3)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


device = torch.device("cuda:1")
net = Mlp().to(device)
adapters = {name: Lora(layer) for name, layer in net.named_children()}
for name, adapter in adapters.items():
    adapter.merge(getattr(net, name))
print(net(torch.randn(2, 6, device=device)))
