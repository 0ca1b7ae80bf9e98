# cause: loss-or-label-on-other-device|extra-input-on-wrong-device
# guilty: data.y (y or labels)
"""Sampled training of a node classifier; features live on the card, the graph on the host."""
import types

import torch
from torch import nn


def make_data(n=300, f=20, c=5, e=1500):
    data = types.SimpleNamespace()
    data.x = torch.randn(n, f)
    data.y = torch.randint(0, c, (n,))
    src, dst = torch.randint(0, n, (2, e))
    data.neighbours = [src[dst == v] for v in range(n)]
    return data


class NeighbourSampler:
    def __init__(self, data, batch_size, fanout, device):
        self.data, self.batch_size, self.fanout, self.device = data, batch_size, fanout, device

    def __iter__(self):
        order = torch.randperm(len(self.data.neighbours))
        for seeds in order.split(self.batch_size):
            rows, cols = [], []
            for r, v in enumerate(seeds.tolist()):
                nb = self.data.neighbours[v]
                nb = nb[torch.randperm(len(nb))[: self.fanout]]
                rows += [r] * len(nb)
                cols.append(nb)
            rows = torch.tensor(rows)
            yield seeds.to(self.device), torch.cat(cols).to(self.device), rows.to(self.device)


class MeanConv(nn.Module):
    def __init__(self, f, h, c):
        super().__init__()
        self.own, self.near, self.out = nn.Linear(f, h), nn.Linear(f, h), nn.Linear(h, c)

    def forward(self, own, near, rows):
        total = own.new_zeros(own.shape).index_add_(0, rows, near)
        count = own.new_zeros(len(own)).index_add_(0, rows, own.new_ones(len(rows))).clamp_(min=1)
        return self.out(torch.relu(self.own(own) + self.near(total / count[:, None])))


def train(device="cuda:1"):
    data = make_data()
    data.x = data.x.to(device)
    model = MeanConv(20, 64, 5).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for seeds, nb, rows in NeighbourSampler(data, 64, 5, device):
        logits = model(data.x[seeds], data.x[nb], rows)
        loss = nn.functional.cross_entropy(logits, data.y[seeds])
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


print(train())
