# cause: extra-input-on-wrong-device
# guilty: batch.edge_weight (edge_weight)
# line: 52
# repair: in MoleculeBatch.to move edge_weight too (loop over all tensor fields of the dataclass) OR in MessageLayer.forward use edge_weight.to(x.device)
"""Graph network over batches of small molecules with its own container."""
from dataclasses import dataclass, replace

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class MoleculeBatch:
    x: torch.Tensor
    edge_index: torch.Tensor
    graph: torch.Tensor
    edge_weight: torch.Tensor | None = None
    y: torch.Tensor | None = None
    size: int = 0

    MOVED = ("x", "edge_index", "graph", "y")

    def to(self, device):
        moved = {name: getattr(self, name).to(device) for name in self.MOVED}
        return replace(self, **moved)

    @classmethod
    def collate(cls, items):
        xs, edges, graph, weight, ys, offset = [], [], [], [], [], 0
        for i, (x, edge, w, y) in enumerate(items):
            xs.append(x)
            edges.append(edge + offset)
            graph.append(torch.full((len(x),), i))
            weight.append(w)
            ys.append(y)
            offset += len(x)
        return cls(torch.cat(xs), torch.cat(edges, 1), torch.cat(graph), torch.cat(weight),
                   torch.stack(ys), len(items))


class MessageLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.message = nn.Linear(dim, dim)
        self.update = nn.GRUCell(dim, dim)

    def forward(self, x, batch):
        source, target = batch.edge_index
        sent = self.message(x)[source]
        if batch.edge_weight is not None:
            sent = sent * batch.edge_weight[:, None]
        received = torch.zeros_like(x).index_add_(0, target, sent)
        return self.update(received, x)


class MoleculeNet(nn.Module):
    def __init__(self, atoms=6, dim=24, layers=2):
        super().__init__()
        self.atom = nn.Embedding(atoms, dim)
        self.layers = nn.ModuleList(MessageLayer(dim) for _ in range(layers))
        self.read = nn.Linear(dim, 1)

    def forward(self, batch):
        x = self.atom(batch.x)
        for layer in self.layers:
            x = layer(x, batch)
        pooled = x.new_zeros(batch.size, x.shape[1]).index_add_(0, batch.graph, x)
        return self.read(pooled)[:, 0]


def molecule(generator):
    n = int(torch.randint(4, 9, (), generator=generator))
    x = torch.randint(0, 6, (n,), generator=generator)
    edge = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    edge = torch.cat([edge, edge.flip(0)], dim=1)
    order = torch.rand(edge.shape[1], generator=generator) + 0.5
    return x, edge, order, (x == 2).sum().float()


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    gen = torch.Generator().manual_seed(0)
    items = [molecule(gen) for _ in range(48)]
    loader = torch.utils.data.DataLoader(items, batch_size=16, collate_fn=MoleculeBatch.collate)
    net = MoleculeNet().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(2):
        for batch in loader:
            batch = batch.to(device)
            loss = F.mse_loss(net(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
