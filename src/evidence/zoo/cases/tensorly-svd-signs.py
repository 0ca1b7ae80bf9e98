import tensorly
import torch
from tensorly.tenalg.svd import svd_interface

tensorly.set_backend("pytorch")
matrix = torch.randn(4, 6, device="cuda:0")
left, values, right = svd_interface(matrix, n_eigenvecs=6, flip_sign=True)
print(left.shape, values.shape, right.shape)
print("SCENARIO OK")
