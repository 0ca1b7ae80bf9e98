# cause: data-parallel-replica-device
import torch
from torch import nn


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Linear(2, 2)
        self.grid = torch.rand(1, 2).cuda()

    def forward(self, x):
        return self.mlp(x) + self.grid


net = nn.DataParallel(Field().cuda())
print(net(torch.randn(4, 2).cuda()).shape)
