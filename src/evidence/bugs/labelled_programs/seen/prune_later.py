# cause: module-left-on-other-device
# guilty: self.mask
import torch
from torch import nn


class SoftGate(nn.Module):
    """Learns which channels may be dropped."""

    def __init__(self, width):
        super().__init__()
        self.mask = nn.Parameter(torch.full((width,), 3.0))

    def forward(self, h):
        return h * self.mask.sigmoid()

    def cost(self):
        return self.mask.sigmoid().sum()


class Net(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.a = nn.Linear(10, width)
        self.gate = nn.Identity()
        self.b = nn.Linear(width, 2)

    def forward(self, x):
        return self.b(self.gate(self.a(x).relu()))


net = Net().to("cuda:0")


def fit(steps, price=0.0):
    opt = torch.optim.Adam(net.parameters(), 1e-2)
    for _ in range(steps):
        x = torch.randn(16, 10, device="cuda:0")
        y = (x.sum(1) > 0).long()
        loss = nn.functional.cross_entropy(net(x), y)
        if price:
            loss = loss + price * net.gate.cost()
        opt.zero_grad()
        loss.backward()
        opt.step()


fit(5)
net.gate = SoftGate(32)  # second phase: prune
fit(5, price=1e-3)
