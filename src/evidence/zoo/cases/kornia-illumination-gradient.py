import torch
from kornia.augmentation import RandomGaussianIllumination

augment = RandomGaussianIllumination(gain=0.5, p=1.0)
images = torch.rand(2, 3, 16, 16, device="cuda:0")
print(augment(images).shape)
print("SCENARIO OK")
