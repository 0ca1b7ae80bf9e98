# cause: module-left-on-other-device
# guilty: ?
import torch
from torch import nn


class Ensemble(nn.Module):
    def __init__(self, count=3):
        super().__init__()
        self.stem = nn.Linear(5, 8)
        self.votes = tuple(nn.Linear(8, 2) for _ in range(count))

    def forward(self, x):
        hidden = self.stem(x).relu()
        return torch.stack([vote(hidden) for vote in self.votes]).mean(0)


net = Ensemble().to("cuda:0")
print(net(torch.rand(4, 5, device="cuda:0")).shape)
