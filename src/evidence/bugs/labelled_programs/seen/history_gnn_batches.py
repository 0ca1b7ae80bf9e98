# cause: cache-or-beam-state-on-wrong-device|extra-input-on-wrong-device
# guilty: n_id (self.emb)
# line: 34
# repair: in History.push index the host table with host ids, `self.emb[n_id.to(self.emb.device)] = x.detach().to(self.emb.device)` (and the same in pull) OR keep n_id out of GraphBatch.to
"""Mini-batch training of a graph network with historical embeddings kept in host memory."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GraphBatch:
    def __init__(self, x, edge_index, y, n_id, inner):
        self.x, self.edge_index, self.y, self.n_id, self.inner = x, edge_index, y, n_id, inner

    def to(self, device):
        for key, value in list(vars(self).items()):
            if torch.is_tensor(value):
                setattr(self, key, value.to(device))
        return self


class History(nn.Module):
    """Last known embedding of each node. Stays on the host, it is far larger than a card."""

    def __init__(self, nodes, dim):
        super().__init__()
        self.emb = torch.zeros(nodes, dim)

    def pull(self, n_id, device):
        return self.emb[n_id.cpu()].to(device)

    @torch.no_grad()
    def push(self, x, n_id):
        self.emb[n_id] = x.detach().to(self.emb.device)


class MeanConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.own, self.other = nn.Linear(d_in, d_out), nn.Linear(d_in, d_out, bias=False)

    def forward(self, x, edge_index):
        src, dst = edge_index
        total = torch.zeros_like(x).index_add(0, dst, x[src])
        degree = torch.zeros(x.shape[0], device=x.device).index_add(0, dst, torch.ones_like(dst, dtype=x.dtype))
        return self.own(x) + self.other(total / degree.clamp(min=1).unsqueeze(1))


class ScalableGNN(nn.Module):
    def __init__(self, nodes, d_in, hidden, classes):
        super().__init__()
        self.conv1, self.conv2 = MeanConv(d_in, hidden), MeanConv(hidden, classes)
        self.history = History(nodes, hidden)

    def forward(self, batch):
        h = F.relu(self.conv1(batch.x, batch.edge_index))
        inner = batch.inner
        old = self.history.pull(batch.n_id, h.device)
        self.history.push(h[:inner], batch.n_id[:inner])
        h = torch.cat([h[:inner], old[inner:]])
        return self.conv2(h, batch.edge_index)[:inner]


class ClusterLoader:
    def __init__(self, x, edge_index, y, parts):
        self.x, self.edge_index, self.y = x, edge_index, y
        self.parts = torch.arange(x.shape[0]).chunk(parts)

    def __iter__(self):
        for part in self.parts:
            own = torch.isin(self.edge_index[1], part)
            src, dst = self.edge_index[:, own]
            halo = src[~torch.isin(src, part)].unique()
            n_id = torch.cat([part, halo])
            local = torch.full((self.x.shape[0],), -1).scatter(0, n_id, torch.arange(n_id.numel()))
            yield GraphBatch(self.x[n_id], torch.stack([local[src], local[dst]]), self.y[part], n_id, part.numel())


if __name__ == "__main__":
    torch.manual_seed(0)
    nodes = 200
    x, y = torch.randn(nodes, 16), torch.randint(0, 3, (nodes,))
    loader = ClusterLoader(x, torch.randint(0, nodes, (2, 900)), y, parts=4)
    model = ScalableGNN(nodes, 16, 32, 3).to("cuda:0")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        for batch in loader:
            batch = batch.to("cuda:0")
            loss = F.cross_entropy(model(batch), batch.y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())
