import torch
import kornia

images = torch.rand(2, 3, 12, 12, device="cuda:0")
print(kornia.enhance.sharpness(images, 0.7).shape)
print("SCENARIO OK")
