import torch
from kornia.augmentation import RandomPlanckianJitter

jitter = RandomPlanckianJitter(mode="blackbody", p=1.0)
images = torch.rand(2, 3, 8, 8, device="cuda:0")
print(jitter(images).shape)
print("SCENARIO OK")
