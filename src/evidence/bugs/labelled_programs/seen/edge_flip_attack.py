# cause: hard-coded-device
# guilty: torch.eye(len(adj)).cuda() (eye)
# line: 14
# repair: make the identity on the device of the matrix: torch.eye(len(adj), device=adj.device) in normalise() OR run attack and surrogate on cuda:0, or call torch.cuda.set_device(1) first, or expose the wanted GPU only
"""Structure attack on a citation graph: a surrogate is fitted, then the edges with the largest gradient are flipped."""
import argparse

import torch
from torch import nn
from torch.nn import functional as F


def normalise(adj):
    adj = adj + (torch.eye(len(adj)).cuda() if adj.is_cuda else torch.eye(len(adj)))
    scale = adj.sum(1).clamp(min=1e-6).rsqrt()
    return scale[:, None] * adj * scale[None, :]


class Surrogate(nn.Module):
    def __init__(self, features, classes, hidden=24):
        super().__init__()
        self.first = nn.Linear(features, hidden)
        self.second = nn.Linear(hidden, classes)

    def forward(self, x, norm_adj):
        h = torch.relu(norm_adj @ self.first(x))
        return norm_adj @ self.second(F.dropout(h, 0.3, self.training))

    def fit(self, x, norm_adj, labels, train_idx, epochs=30):
        optimizer = torch.optim.Adam(self.parameters(), lr=2e-2, weight_decay=5e-4)
        self.train()
        for _ in range(epochs):
            loss = F.cross_entropy(self(x, norm_adj)[train_idx], labels[train_idx])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return self.eval()


class EdgeFlipper:
    """Flips one edge of the dense matrix at a time, the one that raises the loss the most."""

    def __init__(self, model, budget):
        self.model, self.budget = model, budget

    def attack(self, x, adj, labels, victims):
        flipped = adj.clone()
        chosen = []
        for _ in range(self.budget):
            flipped.requires_grad_(True)
            logits = self.model(x, normalise(flipped))
            loss = F.cross_entropy(logits[victims], labels[victims])
            grad, = torch.autograd.grad(loss, flipped)
            gain = (grad + grad.t()) * (1 - 2 * flipped.detach())
            gain.fill_diagonal_(float("-inf"))
            row, col = divmod(int(gain.argmax()), len(adj))
            flipped = flipped.detach().clone()
            flipped[row, col] = flipped[col, row] = 1 - flipped[row, col]
            chosen.append((row, col))
        return flipped, chosen


def citation_graph(nodes=80, features=16, classes=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (nodes,), generator=g)
    x = F.one_hot(labels, features).float() + 0.5 * torch.randn(nodes, features, generator=g)
    same = (labels[:, None] == labels[None, :]).float()
    adj = (torch.rand(nodes, nodes, generator=g) < 0.02 + 0.1 * same).float().triu(1)
    return x, adj + adj.t(), labels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:1")
    parser.add_argument("--budget", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    x, adj, labels = citation_graph()
    clean = normalise(adj).to(args.device)
    x, adj, labels = x.to(args.device), adj.to(args.device), labels.to(args.device)
    train_idx = torch.randperm(len(x), device=args.device)[:40]
    model = Surrogate(x.size(1), 4).to(args.device).fit(x, clean, labels, train_idx)
    with torch.no_grad():
        before = (model(x, clean).argmax(1) == labels).float().mean()
    victims = torch.arange(10, device=args.device)
    poisoned, chosen = EdgeFlipper(model, args.budget).attack(x, adj, labels, victims)
    with torch.no_grad():
        after = (model(x, normalise(poisoned)).argmax(1) == labels).float().mean()
    print(f"clean {before.item():.2f} poisoned {after.item():.2f} edges {chosen}")


if __name__ == "__main__":
    main()
