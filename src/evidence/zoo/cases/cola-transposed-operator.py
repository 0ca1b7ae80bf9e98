import cola
import torch

device = torch.device("cuda:0")
left, right = torch.randn(6, 2, device=device), torch.randn(2, 4, device=device)
low_rank = cola.ops.Product(cola.ops.Dense(left), cola.ops.Dense(right))
print((low_rank @ torch.ones(4, device=device)).shape)
print(low_rank.T.to_dense().norm())
print("SCENARIO OK")
