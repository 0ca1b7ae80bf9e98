# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device
# guilty: node_mask (subset)
# after: pyg-team/pytorch_geometric#8817
from dataclasses import dataclass, fields
import torch
import torch.nn as nn

@dataclass
class Data:
    x: torch.Tensor
    pos: torch.Tensor
    edge_index: torch.Tensor = None
    def to(self, device):
        for f in fields(self):
            value = getattr(self, f.name)
            if value is not None:
                setattr(self, f.name, value.to(device))
        return self
class RadiusGraph:
    def __init__(self, r):
        self.r = r
    def __call__(self, data):
        dist = torch.cdist(data.pos, data.pos)
        dist.fill_diagonal_(float("inf"))
        data.edge_index = (dist < self.r).nonzero().t().contiguous()
        return data
def connected_nodes(edge_index, num_nodes):
    """The nodes of the largest component, by a union find on the host."""
    parent = list(range(num_nodes))
    def find(i):
        while parent[i] != i:
            i = parent[i]
        return i
    for a, b in edge_index.t().tolist():
        parent[find(a)] = find(b)
    roots = torch.tensor([find(i) for i in range(num_nodes)])
    return (roots == roots.mode().values).nonzero().flatten()
def subgraph(subset, edge_index, num_nodes):
    node_mask = torch.zeros(num_nodes, dtype=torch.bool, device=subset.device)
    node_mask[subset] = True
    edge_mask = node_mask[edge_index[0]] & node_mask[edge_index[1]]
    mapping = torch.full((num_nodes,), -1, device=subset.device)
    mapping[subset] = torch.arange(subset.numel(), device=subset.device)
    return mapping[edge_index[:, edge_mask]]
class MeanConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(2 * d_in, d_out)
    def forward(self, x, edge_index):
        src, dst = edge_index
        agg = torch.zeros_like(x).index_add_(0, dst, x[src])
        deg = torch.zeros(x.shape[0], 1, device=x.device).index_add_(0, dst, torch.ones_like(x[src][:, :1]))
        return self.lin(torch.cat([x, agg / deg.clamp(min=1)], dim=-1)).relu()

class NeuronModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([MeanConv(6, 16), MeanConv(16, 16)])
    def forward(self, data):
        keep = connected_nodes(data.edge_index, data.x.shape[0])
        edge_index = subgraph(keep, data.edge_index, data.x.shape[0])
        x = data.x[keep]
        for conv in self.convs:
            x = conv(x, edge_index)
        return x.mean(dim=0)

if __name__ == "__main__":
    torch.manual_seed(3)
    device = torch.device("cuda:0")
    data = RadiusGraph(0.35)(Data(torch.randn(30, 6), torch.rand(30, 2)).to(device))
    print(NeuronModel().to(device)(data).shape)
