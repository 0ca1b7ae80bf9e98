import ot
import torch

device = torch.device("cuda:1")
images = torch.rand(3, 8, 8, device=device, dtype=torch.double)
images = images / images.sum((1, 2), keepdim=True)
mean = ot.bregman.convolutional_barycenter2d(images, 0.05, numItermax=20, warn=False)
print(mean.shape, mean.device)
print("SCENARIO OK")
