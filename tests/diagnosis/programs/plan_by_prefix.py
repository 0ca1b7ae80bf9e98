# cause: device-map-incomplete-or-wrong
import torch
from torch import nn

PLAN = [("embed", "cuda:0"), ("layers.0", "cuda:0"), ("layers.1", "cuda:1"), ("out", "cuda:1")]


class Layer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc = nn.Linear(d, d)

    def forward(self, x):
        x = x.to(self.fc.weight.device)
        return x + torch.relu(self.fc(x))


class Net(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.embed = nn.Embedding(20, d)
        self.layers = nn.ModuleList(Layer(d) for _ in range(2))
        self.norm = nn.LayerNorm(d)
        self.out = nn.Linear(d, 20)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.out(self.norm(x))


def spread(net, plan):
    for prefix, device in plan:
        for name, p in net.named_parameters():
            if name.startswith(prefix):
                p.data = p.data.to(device)
    return net


net = spread(Net(), PLAN)
print(net(torch.randint(0, 20, (2, 3), device="cuda:0")).shape)
