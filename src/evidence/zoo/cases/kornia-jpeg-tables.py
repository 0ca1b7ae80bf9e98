import torch
from kornia.augmentation import RandomJPEG

augment = RandomJPEG(jpeg_quality=(40.0, 60.0), p=1.0)
images = torch.rand(2, 3, 32, 32, device="cuda:0")
print(augment(images).shape)
print("SCENARIO OK")
