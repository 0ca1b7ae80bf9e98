# cause: extra-input-on-wrong-device
# guilty: edge_weight
from dataclasses import dataclass
import torch
from torch import nn, Tensor


@dataclass
class Graph:
    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor
    y: Tensor
    train_mask: Tensor

    def to(self, device):
        self.x = self.x.to(device)
        self.edge_index = self.edge_index.to(device)
        self.y = self.y.to(device)
        self.train_mask = self.train_mask.to(device)
        return self


class GCNConv(nn.Module):
    def __init__(self, c_in, c_out):
        super().__init__()
        self.lin = nn.Linear(c_in, c_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(c_out))

    def forward(self, x, edge_index, norm):
        h = self.lin(x)
        src, dst = edge_index
        msg = h[src] * norm[:, None]
        out = torch.zeros_like(h).index_add_(0, dst, msg)
        return out + self.bias


def gcn_norm(edge_index, edge_weight, num_nodes):
    src, dst = edge_index
    deg = torch.zeros(num_nodes, device=edge_index.device)
    deg = deg.scatter_add(0, dst, edge_weight)
    inv = deg.clamp(min=1e-6).rsqrt()
    return inv[src] * edge_weight * inv[dst]


class GCN(nn.Module):
    def __init__(self, d, hidden, classes):
        super().__init__()
        self.c1 = GCNConv(d, hidden)
        self.c2 = GCNConv(hidden, classes)
        self.drop = nn.Dropout(0.3)

    def forward(self, graph):
        norm = gcn_norm(graph.edge_index, graph.edge_weight, graph.x.size(0))
        h = self.drop(self.c1(graph.x, graph.edge_index, norm).relu())
        return self.c2(h, graph.edge_index, norm)


def synthetic(n=200, e=900, d=32, k=4):
    y = torch.randint(0, k, (n,))
    x = torch.randn(n, d)
    x[torch.arange(n), y] += 2.0
    return Graph(x, torch.randint(0, n, (2, e)), torch.rand(e), y, torch.rand(n) < 0.6)


if __name__ == "__main__":
    torch.manual_seed(7)
    dev = torch.device("cuda", 0)
    graph = synthetic().to(dev)
    model = GCN(32, 16, 4).to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    for epoch in range(10):
        model.train()
        opt.zero_grad()
        out = model(graph)
        loss = nn.functional.cross_entropy(out[graph.train_mask], graph.y[graph.train_mask])
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        pred = model(graph).argmax(-1)
    acc = (pred == graph.y)[~graph.train_mask].float().mean()
    print(f"test acc {acc.item():.3f}")
