import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import PNAConv

edges = torch.tensor([[0, 1, 2, 3, 0, 2], [1, 0, 1, 2, 3, 3]])
graphs = [Data(edge_index=edges, num_nodes=4).to("cuda:0") for _ in range(3)]
degrees = PNAConv.get_degree_histogram(DataLoader(graphs, batch_size=1))
print(degrees)
print("SCENARIO OK")
