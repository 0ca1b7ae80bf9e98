import torch
from gpytorch.utils.cholesky import psd_safe_cholesky

a = torch.randn(3, 5, 5, device="cuda:0")
matrix = a @ a.mT + torch.eye(5, device="cuda:0")
factor = torch.empty_like(matrix)
psd_safe_cholesky(matrix, out=factor)
print(factor.shape)
print("SCENARIO OK")
