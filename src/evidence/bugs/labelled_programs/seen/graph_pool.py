# cause: tensor-created-on-wrong-device
# guilty: out
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(3)


class Conv(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.own, self.near = nn.Linear(a, b), nn.Linear(a, b)

    def forward(self, x, edges):
        src, dst = edges
        summed = torch.zeros_like(x).index_add_(0, dst, x[src])
        return F.relu(self.own(x) + self.near(summed))


def pool_mean(h, owner, n):
    out = torch.zeros(n, h.size(1))
    out.index_add_(0, owner, h)
    size = torch.bincount(owner, minlength=n).clamp(min=1)
    return out / size.unsqueeze(1)


class MoleculeNet(nn.Module):
    def __init__(self, dim=6, hid=12, classes=2):
        super().__init__()
        self.c1, self.c2 = Conv(dim, hid), Conv(hid, hid)
        self.read = nn.Linear(hid, classes)

    def forward(self, x, edges, owner, n):
        h = self.c2(self.c1(x, edges), edges)
        return self.read(pool_mean(h, owner, n))


dev = "cuda:0"
net = MoleculeNet().to(dev)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
x = torch.randn(7, 6, device=dev)
edges = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [1, 2, 0, 4, 5, 6, 3]], device=dev)
owner = torch.tensor([0, 0, 0, 1, 1, 1, 1], device=dev)
y = torch.tensor([0, 1], device=dev)
for epoch in range(3):
    loss = F.cross_entropy(net(x, edges, owner, 2), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
