# cause: tensor-created-on-wrong-device
# guilty: false
# after: pyg-team/pytorch_geometric#3641
import torch
from torch import nn


def false_edges(nodes, count):
    rows = torch.randint(0, nodes, (count,))
    cols = torch.randint(0, nodes, (count,))
    return torch.stack([rows, cols])


def labelled(edges, nodes):
    false = false_edges(nodes, edges.shape[1])
    both = torch.cat([edges, false], dim=-1)
    labels = torch.zeros(both.shape[1], device=edges.device)
    labels[: edges.shape[1]] = 1
    return both, labels


device = "cuda:0"
table = nn.Embedding(20, 8).to(device)
optimizer = torch.optim.Adam(table.parameters(), lr=0.05)
edges = torch.randint(0, 20, (2, 30)).to(device)
for epoch in range(3):
    pairs, labels = labelled(edges, 20)
    scores = (table(pairs[0]) * table(pairs[1])).sum(-1)
    loss = nn.functional.binary_cross_entropy_with_logits(scores, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
