import torch
import kornia

images = torch.rand(1, 1, 24, 32, device="cuda:0")
frames = torch.tensor([[[[0.2, 0.0, 0.5], [0.0, 0.2, 0.5]]]], device="cuda:0")
print(kornia.feature.denormalize_laf(frames, images))
print("SCENARIO OK")
