import copy

import torch
from torch_geometric.nn import Linear

first = Linear(-1, 4).to("cuda:0")
second = copy.deepcopy(first)
x = torch.randn(3, 8, device="cuda:0")
print(first(x).shape, second(x).shape)
print("SCENARIO OK")
