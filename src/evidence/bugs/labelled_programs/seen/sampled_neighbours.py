# cause: extra-input-on-wrong-device
# guilty: edges (src or dst)
# after: pyg-team/pytorch_geometric#3329
import torch
from torch import nn


class Neighbours:
    """Batches of nodes with the edges that lead to them."""

    def __init__(self, x, edges, size):
        self.x, self.edges, self.size = x, edges, size

    def __iter__(self):
        for start in range(0, self.x.shape[0], self.size):
            wanted = torch.arange(start, min(start + self.size, self.x.shape[0]))
            chosen = self.edges[:, torch.isin(self.edges[1], wanted)]
            yield self.x, chosen


class Sage(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.other = nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x, edges):
        src, dst = edges
        summed = torch.zeros_like(x).index_add(0, dst, x[src])
        return self.own(x) + self.other(summed)


device = torch.device("cuda:0")
features = torch.randn(12, 6, device=device)
edges = torch.randint(0, 12, (2, 40))
model = Sage().to(device)
for x, part in Neighbours(features, edges, 4):
    print(model(x, part).shape)
