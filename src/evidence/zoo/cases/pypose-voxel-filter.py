import pypose as pp
import torch

points = torch.rand(50, 3, device="cuda:0")
thinned = pp.voxel_filter(points, [0.5, 0.5, 0.5])
print(thinned.shape)
print("SCENARIO OK")
