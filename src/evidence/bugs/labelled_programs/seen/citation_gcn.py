# cause: tensor-created-on-wrong-device
# guilty: deg
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(1)
N, D, C = 60, 16, 4
dev = torch.device("cuda:0")


def normalise(edge_index, num_nodes):
    src, dst = edge_index
    ones = torch.ones(src.numel(), device=edge_index.device)
    deg = torch.zeros(num_nodes)
    deg.scatter_add_(0, dst, ones)
    inv = deg.clamp(min=1).rsqrt()
    return inv[src] * inv[dst]


class GCNLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.w = nn.Linear(i, o, bias=False)

    def forward(self, x, edge_index, coef):
        src, dst = edge_index
        msg = self.w(x)[src] * coef[:, None]
        return torch.zeros(x.size(0), msg.size(1), device=x.device).index_add_(0, dst, msg)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = GCNLayer(D, 32), GCNLayer(32, C)

    def forward(self, x, edge_index):
        coef = normalise(edge_index, x.size(0))
        return self.b(F.relu(self.a(x, edge_index, coef)), edge_index, coef)


x = torch.randn(N, D, device=dev)
y = torch.randint(0, C, (N,), device=dev)
edges = torch.randint(0, N, (2, 300), device=dev)
net = GCN().to(dev)
opt = torch.optim.Adam(net.parameters(), 1e-2)
for epoch in range(5):
    opt.zero_grad()
    loss = F.cross_entropy(net(x, edges), y)
    loss.backward()
    opt.step()
    print(epoch, loss.item())
