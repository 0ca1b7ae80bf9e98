# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device
# guilty: edge_index (graph["edge_index"] or edge_index[1] or edge_index[0])
# after: snap-stanford/ogb#68
import torch
from torch import nn

graph = {
    "atoms": torch.randint(0, 9, (10,)),
    "edge_index": torch.randint(0, 10, (2, 24)),
}


class Molecules(nn.Module):
    def __init__(self):
        super().__init__()
        self.atom = nn.Embedding(9, 12)
        self.mix = nn.Linear(12, 12)

    def forward(self, atoms, edge_index):
        atoms, edge_index = atoms, graph["edge_index"]
        h = self.atom(atoms)
        near = torch.zeros_like(h).index_add_(0, edge_index[1], h[edge_index[0]])
        return self.mix(near).relu().mean(0)


device = torch.device("cuda:0")
net = Molecules().to(device)
moved = {name: value.to(device) for name, value in graph.items()}
print(net(moved["atoms"], moved["edge_index"]))
