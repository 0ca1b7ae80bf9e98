import torch
from kornia.geometry.transform import get_shear_matrix2d

center = torch.tensor([[8.0, 8.0], [4.0, 4.0]], device="cuda:0")
angles = torch.tensor([0.1, 0.3], device="cuda:0")
print(get_shear_matrix2d(center, sx=angles).shape)
print("SCENARIO OK")
