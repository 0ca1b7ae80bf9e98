# cause: extra-input-on-wrong-device
# guilty: adj
from typing import NamedTuple
import torch
import torch.nn as nn
import torch.nn.functional as F


class Graph(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor
    adj: torch.Tensor
    train: torch.Tensor

    def to(self, device):
        moved = {k: v.to(device) for k, v in self._asdict().items() if v.layout == torch.strided}
        return self._replace(**moved)


def random_graph(n=80, f=10, classes=3):
    y = torch.randint(0, classes, (n,))
    x = F.one_hot(y, classes).float() @ torch.randn(classes, f) + torch.randn(n, f)
    same = y[:, None] == y[None]
    a = torch.rand(n, n) < torch.where(same, 0.15, 0.02)
    a = (a | a.T).float()
    a.fill_diagonal_(1.0)
    a = a / a.sum(1, keepdim=True)
    return Graph(x, y, a.to_sparse_coo().coalesce(), torch.rand(n) < 0.5)


class Propagate(nn.Module):
    def __init__(self, hops):
        super().__init__()
        self.theta = nn.Parameter(torch.full((hops + 1,), 1.0 / (hops + 1)))

    def forward(self, h, adj):
        out = self.theta[0] * h
        for t in self.theta[1:]:
            h = torch.sparse.mm(adj, h)
            out = out + t * h
        return out


class Gpr(nn.Module):
    def __init__(self, f, classes, hops=3):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(f, 24), nn.ReLU(), nn.Linear(24, classes))
        self.prop = Propagate(hops)

    def forward(self, g):
        return self.prop(self.mlp(g.x), g.adj)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    g = random_graph().to(device)
    model = Gpr(g.x.size(1), 3).to(device)
    opt = torch.optim.Adam(model.parameters(), 1e-2)
    for epoch in range(5):
        logits = model(g)
        loss = F.cross_entropy(logits[g.train], g.y[g.train])
        opt.zero_grad()
        loss.backward()
        opt.step()
    acc = (logits.argmax(1) == g.y)[~g.train].float().mean()
    print(loss.item(), acc.item())


if __name__ == "__main__":
    main()
