import torch
from linear_operator.operators import DiagLinearOperator

device = torch.device("cuda:0")
noise = DiagLinearOperator(torch.rand(6, device=device) + 0.1)
largest = torch.linalg.eigvalsh(noise.to_dense()).topk(3).indices
columns = torch.arange(3)
print(noise.to_dense()[largest, columns])
print(noise[largest, columns])
print("SCENARIO OK")
