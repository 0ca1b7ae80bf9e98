# cause: extra-input-on-wrong-device|embedding-streams-on-different-devices
# guilty: received (halo)
# line: 63
# repair: in Exchange.fetch hand the rows over on the card of the part that asks, `rows.append(peer.h[index].to(part.device))`
"""Weather on a ring of cells: one partition of the graph per GPU, halos exchanged each layer."""
import torch
import torch.nn as nn


class Part:
    """Cells that one GPU owns, with edges in local numbering (own cells, then halo cells)."""

    def __init__(self, rank, cells, needed, edges, device):
        self.rank, self.device = rank, torch.device(device)
        self.cells = cells
        self.needed = needed
        self.edges = edges.to(self.device)
        self.h = None

    def load(self, features):
        self.h = features[self.cells].to(self.device)


class Exchange:
    def __init__(self, parts):
        self.parts = parts

    def fetch(self, part):
        rows = []
        for owner, local in part.needed:
            peer = self.parts[owner]
            index = local.to(peer.device)
            rows.append(peer.h[index])
        return torch.cat(rows)


class RingPartitioner:
    def __init__(self, cells, devices):
        self.cells, self.devices = cells, devices

    def build(self):
        chunks = torch.arange(self.cells).chunk(len(self.devices))
        parts = []
        for rank, (own, device) in enumerate(zip(chunks, self.devices)):
            n = len(own)
            before, after = (rank - 1) % len(chunks), (rank + 1) % len(chunks)
            needed = [(before, torch.tensor([len(chunks[before]) - 1])), (after, torch.tensor([0]))]
            left = torch.cat([torch.tensor([n]), torch.arange(n - 1)])
            right = torch.cat([torch.arange(1, n), torch.tensor([n + 1])])
            dst = torch.arange(n)
            edges = torch.cat([torch.stack([left, dst]), torch.stack([right, dst])], dim=1)
            parts.append(Part(rank, own, needed, edges, device))
        return parts


class MessageLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.message = nn.Linear(2 * dim, dim)
        self.update = nn.GRUCell(dim, dim)

    def forward(self, own, received, edges):
        h = torch.cat([own, received])
        src, dst = edges
        m = torch.relu(self.message(torch.cat([h[src], h[dst]], dim=1)))
        pooled = torch.zeros_like(own).index_add(0, dst, m)
        return self.update(pooled, own)


class RingForecaster:
    def __init__(self, parts, dim, depth):
        self.parts, self.exchange = parts, Exchange(parts)
        self.replicas = []
        template = nn.ModuleList(MessageLayer(dim) for _ in range(depth))
        for part in parts:
            replica = nn.ModuleList(MessageLayer(dim) for _ in range(depth))
            replica.load_state_dict(template.state_dict())
            self.replicas.append(replica.to(part.device))
        self.depth = depth

    @torch.no_grad()
    def step(self, features):
        for part in self.parts:
            part.load(features)
        for layer in range(self.depth):
            halos = [self.exchange.fetch(part) for part in self.parts]
            fresh = []
            for part, halo, replica in zip(self.parts, halos, self.replicas):
                fresh.append(replica[layer](part.h, halo, part.edges))
            for part, h in zip(self.parts, fresh):
                part.h = h
        return torch.cat([part.h.cpu() for part in self.parts])


if __name__ == "__main__":
    torch.manual_seed(0)
    parts = RingPartitioner(24, ["cuda:0", "cuda:1"]).build()
    forecaster = RingForecaster(parts, dim=8, depth=2)
    state = torch.randn(24, 8)
    for hour in range(3):
        state = forecaster.step(state)
        print(hour, state.norm().item())
