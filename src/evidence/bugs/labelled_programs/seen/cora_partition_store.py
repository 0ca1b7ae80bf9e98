# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device
# guilty: src (edges, dst, w, store.edges)
# line: 44
# repair: in DeepGCN.forward hand each layer the edges on its card: layer(x.to(device), *store.on(device)) with a method that moves src, dst and w OR in GCNLayer.forward: src, dst, w = (t.to(h.device) for t in (src, dst, w))
"""Full-batch node classification; a deep graph network with layers on two cards."""
from functools import cached_property

import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphStore:
    """Features, labels and lazily normalised edges of one graph."""

    def __init__(self, n_nodes, edge_index, feats, labels, device):
        self.n_nodes, self.device = n_nodes, device
        self.edge_index = edge_index.to(device)
        self.feats, self.labels = feats.to(device), labels.to(device)

    @cached_property
    def edges(self):
        loops = torch.arange(self.n_nodes, device=self.device).repeat(2, 1)
        src, dst = torch.cat([self.edge_index, loops], dim=1)
        deg = torch.zeros(self.n_nodes, device=self.device)
        deg.index_add_(0, dst, torch.ones_like(dst, dtype=deg.dtype))
        norm = deg.rsqrt()
        return src, dst, norm[src] * norm[dst]

    @classmethod
    def random(cls, n=60, edges=200, dim=16, classes=4, device="cuda:0", seed=0):
        g = torch.Generator().manual_seed(seed)
        return cls(n, torch.randint(0, n, (2, edges), generator=g), torch.randn(n, dim, generator=g),
                   torch.randint(0, classes, (n,), generator=g), device)


class GCNLayer(nn.Module):
    def __init__(self, dim_in, dim_out):
        super().__init__()
        self.lin = nn.Linear(dim_in, dim_out)

    def forward(self, x, src, dst, w):
        h = self.lin(x)
        messages = h[src] * w.unsqueeze(-1)
        return torch.zeros_like(h).index_add_(0, dst, messages)


class DeepGCN(nn.Module):
    def __init__(self, dims, devices):
        super().__init__()
        self.layers = nn.ModuleList(GCNLayer(a, b) for a, b in zip(dims, dims[1:]))
        n = len(self.layers)
        self.devices = [devices[i * len(devices) // n] for i in range(n)]
        for layer, device in zip(self.layers, self.devices):
            layer.to(device)

    def forward(self, store):
        x = store.feats
        for i, (layer, device) in enumerate(zip(self.layers, self.devices)):
            x = layer(x.to(device), *store.edges)
            if i + 1 < len(self.layers):
                x = F.dropout(F.relu(x), 0.2, self.training)
        return x


class NodeTask:
    def __init__(self, store, model, lr=0.01):
        self.store, self.model = store, model
        self.train_mask = torch.rand(store.n_nodes) < 0.6
        self.opt = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=5e-4)

    def epoch(self):
        self.model.train()
        logits = self.model(self.store)
        labels = self.store.labels.to(logits.device)
        loss = F.cross_entropy(logits[self.train_mask], labels[self.train_mask])
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    task = NodeTask(GraphStore.random(), DeepGCN([16, 32, 32, 4], ["cuda:0", "cuda:1"]))
    for _ in range(3):
        print(task.epoch())
