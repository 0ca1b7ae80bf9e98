# cause: extra-input-on-wrong-device
# guilty: g.edge_weight[:, None] (g.edge_weight)
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Graph:
    x: torch.Tensor
    edge_index: torch.Tensor
    edge_weight: torch.Tensor
    y: torch.Tensor

    @property
    def num_nodes(self) -> int:
        return self.x.size(0)

    def to(self, device) -> Graph:
        self.x = self.x.to(device)
        self.edge_index = self.edge_index.to(device)
        self.edge_weight.to(device)
        self.y = self.y.to(device)
        return self


def ring(n: int) -> Graph:
    src = torch.arange(n)
    dst = (src + 1) % n
    idx = torch.stack([torch.cat([src, dst]), torch.cat([dst, src])])
    return Graph(torch.randn(n, 6), idx, torch.rand(idx.size(1)), torch.randint(0, 3, (n,)))


class GraphConv(nn.Module):
    def __init__(self, i: int, o: int):
        super().__init__()
        self.lin = nn.Linear(i, o)

    def forward(self, h, g: Graph):
        h = self.lin(h)
        src, dst = g.edge_index
        messages = h[src] * g.edge_weight[:, None]
        out = torch.zeros_like(h)
        return out.index_add(0, dst, messages)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = GraphConv(6, 16), GraphConv(16, 3)

    def forward(self, g: Graph):
        return self.b(torch.relu(self.a(g.x, g)), g)


if __name__ == "__main__":
    torch.manual_seed(3)
    device = torch.device("cuda", 1)
    graph = ring(12).to(device)
    net = GCN().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=0.01)
    for it in range(4):
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(graph), graph.y)
        loss.backward()
        opt.step()
        print(it, float(loss))
