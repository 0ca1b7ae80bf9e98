# cause: module-left-on-other-device
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(8, 8)
        self.blocks = [nn.Linear(8, 8) for _ in range(3)]

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = torch.relu(block(x))
        return x


net = Net().to("cuda:0")
net(torch.randn(4, 8, device="cuda:0"))
