# cause: tensor-created-on-wrong-device
# guilty: negatives
"""Link prediction on a random graph with a two-layer mean aggregator."""
import argparse

import torch
import torch.nn.functional as F
from torch import nn


def propagate(x, edge_index):
    src, dst = edge_index
    out = torch.zeros_like(x).index_add_(0, dst, x[src])
    deg = torch.bincount(dst, minlength=x.size(0)).clamp(min=1).to(x.dtype)
    return out / deg.unsqueeze(-1)


class Encoder(nn.Module):
    def __init__(self, inp, hid):
        super().__init__()
        self.own1, self.nbr1 = nn.Linear(inp, hid), nn.Linear(inp, hid)
        self.own2, self.nbr2 = nn.Linear(hid, hid), nn.Linear(hid, hid)

    def forward(self, x, edge_index):
        h = F.relu(self.own1(x) + self.nbr1(propagate(x, edge_index)))
        return self.own2(h) + self.nbr2(propagate(h, edge_index))


def sample_negatives(num_nodes, count):
    src = torch.randint(num_nodes, (count,))
    dst = torch.randint(num_nodes, (count,))
    return torch.stack([src, dst])


def train_step(model, opt, x, edge_index):
    model.train()
    opt.zero_grad()
    z = model(x, edge_index)
    negatives = sample_negatives(x.size(0), edge_index.size(1))
    pairs = torch.cat([edge_index, negatives], dim=1)
    labels = torch.zeros(pairs.size(1), device=z.device)
    labels[: edge_index.size(1)] = 1.0
    logits = (z[pairs[0]] * z[pairs[1]]).sum(-1)
    loss = F.binary_cross_entropy_with_logits(logits, labels)
    loss.backward()
    opt.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--edges", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--device", default="cuda:0")
    args = parser.parse_args()

    torch.manual_seed(3)
    features = torch.randn(args.nodes, 16).to(args.device)
    edge_index = torch.randint(args.nodes, (2, args.edges)).to(args.device)
    model = Encoder(16, 24).to(args.device)
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(args.epochs):
        print(f"epoch {epoch}: {train_step(model, opt, features, edge_index):.4f}")


if __name__ == "__main__":
    main()
