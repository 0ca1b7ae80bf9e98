# cause: extra-input-on-wrong-device
# guilty: bonds
import torch
from torch import nn
from torch.utils.data import DataLoader


def collate(graphs):
    xs, pairs, bonds, owner, shift = [], [], [], [], 0
    for i, g in enumerate(graphs):
        xs.append(g["x"])
        pairs.append(g["pairs"] + shift)
        bonds.append(g["bonds"])
        owner.append(torch.full((len(g["x"]),), i))
        shift += len(g["x"])
    return torch.cat(xs), torch.cat(pairs, 1), torch.cat(bonds), torch.cat(owner)


class Conv(nn.Module):
    def __init__(self, d, e):
        super().__init__()
        self.node, self.edge = nn.Linear(d, d), nn.Linear(e, d)

    def forward(self, x, pairs, bonds):
        src, dst = pairs
        msg = self.node(x)[src] * self.edge(bonds).sigmoid()
        return x + torch.zeros_like(x).index_add_(0, dst, msg)


data = [
    {"x": torch.randn(5, 8), "pairs": torch.randint(0, 5, (2, 9)), "bonds": torch.rand(9, 3)}
    for _ in range(12)
]
dev = torch.device("cuda", 1)
conv, head = Conv(8, 3).to(dev), nn.Linear(8, 1).to(dev)
opt = torch.optim.Adam([*conv.parameters(), *head.parameters()])

for x, pairs, bonds, owner in DataLoader(data, batch_size=4, collate_fn=collate):
    x, pairs, owner = x.to(dev), pairs.to(dev), owner.to(dev)
    h = conv(x, pairs, bonds)
    pooled = torch.zeros(4, 8, device=dev).index_add_(0, owner, h)
    head(pooled).square().mean().backward()
    opt.step()
    opt.zero_grad()
