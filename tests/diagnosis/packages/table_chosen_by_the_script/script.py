# cause: extra-input-on-wrong-device|input-not-on-embedding-device
# guilty: scale
import kit
import torch

model = kit.Scaled().to("cuda:1")
scale = torch.rand(4, device="cuda:0")
print(model(torch.randn(2, 4, device="cuda:1"), scale).shape)
