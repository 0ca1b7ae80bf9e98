# cause: hard-coded-device
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        noise = torch.randn(x.shape).cuda()
        return self.lin(x + noise)


device = torch.device("cuda:1")
net = Net().to(device)
net(torch.randn(2, 8).to(device))
