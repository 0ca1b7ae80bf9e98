import torch
from kornia.feature.sold2.sold2 import WunschLineMatcher

matcher = WunschLineMatcher(num_samples=5, min_dist_pts=4).to("cuda:0")
lines = 60 * torch.rand(6, 2, 2, device="cuda:0")
descriptors = torch.nn.functional.normalize(torch.randn(1, 8, 16, 16, device="cuda:0"), dim=1)
print(matcher(lines, lines.flip(0), descriptors, descriptors).shape)
print("SCENARIO OK")
