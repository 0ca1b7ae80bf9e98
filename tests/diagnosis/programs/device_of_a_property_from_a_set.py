# cause: device-from-unordered-set
import torch
from torch import nn


class Ensemble(nn.Module):
    def __init__(self, members):
        super().__init__()
        self.members = nn.ModuleList(members)

    @property
    def device(self):
        (first, *_) = {p.device for p in self.parameters()}
        return first

    def forward(self, x):
        h = self.members[0](x)
        return self.members[1](h.to(self.members[1].weight.device))


net = Ensemble([nn.Linear(4, 4).to("cuda:1"), nn.Linear(4, 2).to("cuda:0")])
x = torch.randn(2, 4).to(net.device)
print(net(x))
