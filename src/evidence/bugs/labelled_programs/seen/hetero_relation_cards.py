# cause: block-split-across-devices|embedding-streams-on-different-devices|tensor-created-on-wrong-device
# guilty: message (total[target], total)
# line: 35
# repair: in RelationLayer.forward collect on one card: message = conv(...).to(features[target].device) before it is added OR place all relations that end in one node type on one card
"""Heterogeneous graph of authors, papers and venues; relations are shared out over two cards."""
import torch
from torch import nn


class RelationConv(nn.Module):
    def __init__(self, dim, card):
        super().__init__()
        self.card = torch.device(card)
        self.lin = nn.Linear(dim, dim).to(self.card)

    def forward(self, source, edges, n_target):
        source, edges = source.to(self.card), edges.to(self.card)
        out = torch.zeros(n_target, self.lin.out_features, device=self.card)
        out.index_add_(0, edges[1], self.lin(source[edges[0]]))
        degree = torch.bincount(edges[1], minlength=n_target).clamp(min=1)
        return out / degree[:, None]


class RelationLayer(nn.Module):
    def __init__(self, relations, dim, cards):
        super().__init__()
        self.relations = relations
        self.convs = nn.ModuleList([RelationConv(dim, cards[i % len(cards)]) for i in range(len(relations))])

    def forward(self, features, edges):
        total = {}
        for conv, (source, name, target) in zip(self.convs, self.relations):
            message = conv(features[source], edges[name], features[target].shape[0])
            if target in total:
                total[target] = total[target] + message
            else:
                total[target] = message
        return {k: total[k].relu() if k in total else v for k, v in features.items()}


class BiblioNet(nn.Module):
    RELATIONS = [("author", "writes", "paper"), ("paper", "written_by", "author"),
                 ("paper", "appears_in", "venue"), ("venue", "publishes", "paper")]

    def __init__(self, dim=16, classes=4, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.layers = nn.ModuleList([RelationLayer(self.RELATIONS, dim, cards) for _ in range(2)])
        self.head = nn.Linear(dim, classes).to(cards[0])

    def forward(self, features, edges):
        for layer in self.layers:
            features = layer(features, edges)
        return self.head(features["paper"].to(self.head.weight.device))


def toy_graph(dim=16):
    sizes = {"author": 12, "paper": 20, "venue": 3}
    features = {k: torch.randn(n, dim, device="cuda:0") for k, n in sizes.items()}
    edges = {}
    for s, name, t in BiblioNet.RELATIONS:
        edges[name] = torch.stack([torch.randint(0, sizes[s], (40,)), torch.randint(0, sizes[t], (40,))])
    return features, edges


if __name__ == "__main__":
    torch.manual_seed(0)
    net, (features, edges) = BiblioNet(), toy_graph()
    opt = torch.optim.Adam(net.parameters(), lr=0.01)
    labels = torch.randint(0, 4, (20,), device="cuda:0")
    for _ in range(3):
        loss = nn.functional.cross_entropy(net(features, edges), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())
