import torch
from torch_geometric_temporal.nn.recurrent import DCRNN

edges = torch.tensor([[0, 1, 2, 3, 1], [1, 2, 3, 0, 3]], device="cuda:0")
weights = torch.rand(5, device="cuda:0")
cell = DCRNN(in_channels=4, out_channels=8, K=2).to("cuda:0")
state = None
for _ in range(3):
    state = cell(torch.randn(4, 4, device="cuda:0"), edges, weights, state)
state.sum().backward()
print(state.shape)
print("SCENARIO OK")
