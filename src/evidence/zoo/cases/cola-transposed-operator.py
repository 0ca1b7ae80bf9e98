import cola
import torch

features = torch.randn(6, 4, device="cuda:0")
design = cola.ops.Dense(features)
transposed = design.T.to_dense()
print(transposed.shape, (transposed @ features).diagonal())
print("SCENARIO OK")
