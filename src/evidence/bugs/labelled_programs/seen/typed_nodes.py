# cause: tensor-created-on-wrong-device
# guilty: torch.arange(len(ids)) (values)
# after: pyg-team/pytorch_geometric#4910
import torch
from torch import nn


def split_by_type(x, kinds, edges):
    """Rows and edges of each kind of node, with local numbers."""
    local = kinds.new_full((kinds.shape[0],), -1)
    parts = {}
    for kind in kinds.unique().tolist():
        ids = (kinds == kind).nonzero().view(-1)
        local[ids] = torch.arange(len(ids))
        inside = (kinds[edges[0]] == kind) & (kinds[edges[1]] == kind)
        parts[kind] = (x[ids], local[edges[:, inside]])
    return parts


gpu = torch.device("cuda:0")
x = torch.randn(7, 5).to(gpu)
kinds = torch.tensor([0, 1, 0, 1, 2, 2, 0]).to(gpu)
edges = torch.tensor([[0, 1, 2, 4, 6], [2, 3, 6, 5, 0]]).to(gpu)
layers = nn.ModuleDict({str(k): nn.Linear(5, 3) for k in range(3)}).to(gpu)
for kind, (rows, inner) in split_by_type(x, kinds, edges).items():
    hidden = layers[str(kind)](rows)
    summed = torch.zeros_like(hidden).index_add_(0, inner[1], hidden[inner[0]])
    print(kind, summed.sum().item())
