# cause: extra-input-on-wrong-device
import torch
from torch import nn


class Graph:
    def __init__(self, x, edges, batch):
        self.x, self.edges, self.batch = x, edges, batch

    def to(self, device):
        self.x = self.x.to(device)
        self.edges = self.edges.to(device)
        return self


def merge(graphs):
    x = torch.cat([g.x for g in graphs])
    shift, edges, batch = 0, [], []
    for n, g in enumerate(graphs):
        edges.append(g.edges + shift)
        batch.append(torch.full((len(g.x),), n))
        shift += len(g.x)
    return Graph(x, torch.cat(edges, 1), torch.cat(batch))


class Gin(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.inp, self.mlp, self.out = nn.Linear(3, d), nn.Linear(d, d), nn.Linear(d, 2)

    def forward(self, g):
        h = self.inp(g.x)
        h = torch.relu(self.mlp(h + torch.zeros_like(h).index_add(0, g.edges[1], h[g.edges[0]])))
        pooled = h.new_zeros(int(g.batch.max()) + 1, h.size(1)).index_add(0, g.batch, h)
        return self.out(pooled)


device = torch.device("cuda:1")
graphs = [Graph(torch.randn(n, 3), torch.randint(0, n, (2, 6)), None) for n in (4, 5)]
print(Gin().to(device)(merge(graphs).to(device)))
