# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: weight (self._cached, norm)
# line: 31
# repair: drop the cache in the copy before it goes to the other card (replica.reset_cache() in SnapshotEvaluator.refresh) OR keep _cached as a buffer (register_buffer("_cached", None, persistent=False)) so that .to() moves it
"""Full-graph GCN; evaluation runs on a copy of the model on the second card."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphConv(nn.Module):
    def __init__(self, inp, out, cached=True):
        super().__init__()
        self.lin, self.cached, self._cached = nn.Linear(inp, out, bias=False), cached, None

    def reset_cache(self):
        self._cached = None

    def norm(self, edges, nodes):
        if self._cached is None or not self.cached:
            src, dst = edges
            degree = torch.zeros(nodes, device=edges.device).index_add_(
                0, dst, torch.ones(dst.numel(), device=edges.device)).clamp_min(1)
            self._cached = degree[src].rsqrt() * degree[dst].rsqrt()
        return self._cached

    def forward(self, x, edges):
        weight = self.norm(edges, x.size(0))
        messages = self.lin(x)[edges[0]] * weight[:, None]
        return torch.zeros(x.size(0), messages.size(1), device=x.device).index_add_(0, edges[1], messages)


class GCN(nn.Module):
    def __init__(self, inp, hidden, classes):
        super().__init__()
        self.first, self.second = GraphConv(inp, hidden), GraphConv(hidden, classes)

    def forward(self, graph):
        x = F.relu(self.first(graph["x"], graph["edges"]))
        return self.second(F.dropout(x, training=self.training), graph["edges"])


def to(graph, device):
    return {k: v.to(device) for k, v in graph.items()}


class SnapshotEvaluator:
    """Lets the training card go on while a snapshot is scored elsewhere."""

    def __init__(self, graph, device):
        self.graph, self.device, self.replica = to(graph, device), device, None

    def refresh(self, model):
        self.replica = copy.deepcopy(model).to(self.device).eval()

    @torch.no_grad()
    def accuracy(self, model):
        self.refresh(model)
        hit = self.replica(self.graph).argmax(1) == self.graph["y"]
        return hit[~self.graph["train"]].float().mean().item()


def ring_of_cliques(n=60, classes=3):
    edges = torch.randint(0, n, (2, 6 * n))
    y = torch.arange(n) % classes
    edges = edges[:, y[edges[0]] == y[edges[1]]]
    return {"x": torch.randn(n, 8) + F.one_hot(y, 8), "edges": edges, "y": y, "train": torch.rand(n) < 0.5}


if __name__ == "__main__":
    torch.manual_seed(0)
    data = ring_of_cliques()
    graph, model = to(data, "cuda:0"), GCN(8, 16, 3).to("cuda:0")
    evaluator = SnapshotEvaluator(data, "cuda:1")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(6):
        loss = F.cross_entropy(model(graph)[graph["train"]], graph["y"][graph["train"]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if epoch % 3 == 2:
            print(epoch, loss.item(), evaluator.accuracy(model))
