import torch
from kornia.feature import SIFTDescriptor
from kornia.feature.integrated import get_laf_descriptors

images = torch.rand(2, 1, 32, 32, device="cuda:0")
lafs = torch.tensor([[[[8.0, 0.0, 16.0], [0.0, 8.0, 16.0]]]], device="cuda:0")
sift = SIFTDescriptor(16).to("cuda:0")
found = get_laf_descriptors(images[:1], lafs, sift, 16)
none = get_laf_descriptors(images[1:], lafs[:, :0], sift, 16)
descriptors = torch.cat([found, none], dim=1)
print(descriptors.shape)
print("SCENARIO OK")
