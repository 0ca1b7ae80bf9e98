import torch
from torch_geometric.data import Data
from torch_geometric.transforms import LargestConnectedComponents

edges = torch.tensor([[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]])
graph = Data(x=torch.randn(5, 3), edge_index=edges).to("cuda:0")
print(LargestConnectedComponents()(graph))
print("SCENARIO OK")
