import torch
from torch_geometric.nn import MeshCNNConv

device = "cuda" if torch.cuda.is_available() else "cpu"
edges = torch.arange(6)  # of a mesh; each has four neighbours
neighbours = torch.stack([(edges[:, None] + torch.tensor([1, 2, 3, 4])).flatten() % 6, edges.repeat_interleave(4)])
layer = MeshCNNConv(8, 8).to(device)
layer(torch.randn(6, 8).to(device), neighbours.to(device))
