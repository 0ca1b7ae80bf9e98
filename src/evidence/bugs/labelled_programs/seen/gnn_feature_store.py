# cause: extra-input-on-wrong-device|embedding-streams-on-different-devices
# guilty: neighbours (x_neigh, features from the store)
# line: 52
# repair: return the rows on the consumer's card: FeatureStore.fetch should use .to(self.out_device) as well when the ids hit the hot set (the early return skips it) OR move x_self and neighbours to self.device in SageTrainer.step
"""GraphSAGE on sampled neighbourhoods; the node features live on the second card."""
import torch
import torch.nn.functional as F
from torch import nn


class FeatureStore:
    """Node features; the rows that are asked most often are kept in a smaller, hot table."""

    def __init__(self, features, hot_ids, device, out_device):
        self.device = torch.device(device)
        self.out_device = torch.device(out_device)
        self.features = features.to(self.device)
        self.slot = torch.full((len(features),), -1, dtype=torch.long, device=self.device)
        self.slot[hot_ids.to(self.device)] = torch.arange(len(hot_ids), device=self.device)
        self.hot = self.features[hot_ids.to(self.device)].clone()

    def fetch(self, ids):
        ids = ids.to(self.device)
        slots = self.slot[ids]
        if bool((slots >= 0).all()):
            return self.hot[slots]
        return self.features[ids].to(self.out_device)


class NeighbourSampler:
    def __init__(self, nodes, degree, hot, seed):
        g = torch.Generator().manual_seed(seed)
        self.table = torch.randint(0, hot, (nodes, degree), generator=g)
        self.nodes = nodes
        self.g = g

    def batches(self, count, size, fanout):
        for _ in range(count):
            seeds = torch.randint(self.nodes // 2, self.nodes, (size,), generator=self.g)
            pick = torch.randint(0, self.table.shape[1], (size, fanout), generator=self.g)
            yield seeds, self.table[seeds].gather(1, pick)


class SageLayer(nn.Module):
    def __init__(self, fin, fout):
        super().__init__()
        self.own = nn.Linear(fin, fout)
        self.neigh = nn.Linear(fin, fout, bias=False)

    def forward(self, x_self, neighbours):
        h = self.own(x_self)
        return F.relu(h + self.neigh(neighbours.mean(1)))


class SageNet(nn.Module):
    def __init__(self, fin, width, classes):
        super().__init__()
        self.layer = SageLayer(fin, width)
        self.out = nn.Linear(width, classes)

    def forward(self, x_self, neighbours):
        return self.out(self.layer(x_self, neighbours))


class SageTrainer:
    def __init__(self, net, store, labels, device):
        self.device = torch.device(device)
        self.net = net.to(self.device)
        self.store = store
        self.labels = labels.to(self.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-2)

    def step(self, seeds, neigh_ids):
        x_self = self.store.fetch(seeds)
        x_neigh = self.store.fetch(neigh_ids.flatten()).view(*neigh_ids.shape, -1)
        logits = self.net(x_self, x_neigh)
        loss = F.cross_entropy(logits, self.labels[seeds.to(self.device)])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    nodes, hot = 400, 50
    store = FeatureStore(torch.randn(nodes, 12), torch.arange(hot), device="cuda:1", out_device="cuda:0")
    trainer = SageTrainer(SageNet(12, 16, 5), store, torch.randint(0, 5, (nodes,)), "cuda:0")
    for seeds, neigh in NeighbourSampler(nodes, 20, hot, seed=4).batches(3, 32, 6):
        print(trainer.step(seeds, neigh))
