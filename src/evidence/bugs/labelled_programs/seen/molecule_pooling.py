# cause: tensor-created-on-wrong-device
# guilty: out
"""Predict solubility of molecules with a batched graph network."""
import torch
from torch import nn


def scatter_mean(values, index, size):
    out = torch.zeros(size, values.size(-1), dtype=values.dtype)
    count = torch.bincount(index, minlength=size).clamp(min=1)
    out.index_add_(0, index, values)
    return out / count[:, None].to(values.dtype)


def neighbour_sum(x, edges):
    total = torch.zeros_like(x)
    return total.index_add_(0, edges[1], x[edges[0]])


class GIN(nn.Module):
    def __init__(self, atoms=9, dim=16, depth=2):
        super().__init__()
        self.atom = nn.Embedding(atoms, dim)
        self.eps = nn.Parameter(torch.zeros(depth))
        self.mlps = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
                                  for _ in range(depth))
        self.read = nn.Linear(dim, 1)

    def forward(self, batch):
        x = self.atom(batch["atoms"])
        for eps, mlp in zip(self.eps, self.mlps):
            x = mlp((1 + eps) * x + neighbour_sum(x, batch["edges"]))
        return self.read(scatter_mean(x, batch["owner"], batch["molecules"])).squeeze(-1)


def collate(molecules):
    atoms, edges, owner, shift = [], [], [], 0
    for i, (types, bonds) in enumerate(molecules):
        atoms.append(types)
        edges.append(bonds + shift)
        owner.append(torch.full_like(types, i))
        shift += len(types)
    return {"atoms": torch.cat(atoms), "edges": torch.cat(edges, dim=1), "owner": torch.cat(owner),
            "molecules": len(molecules)}


def send(batch, device):
    return {k: v.to(device) if torch.is_tensor(v) else v for k, v in batch.items()}


def library(n):
    for _ in range(n):
        sizes = torch.randint(4, 9, (6,)).tolist()
        yield collate([(torch.randint(0, 9, (s,)), torch.randint(0, s, (2, 2 * s))) for s in sizes])


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda:1")
    net = GIN().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for raw in library(3):
        batch = send(raw, device)
        target = torch.bincount(batch["owner"]).float().log()
        loss = (net(batch) - target).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())
