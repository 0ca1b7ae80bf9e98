# cause: tensor-created-on-wrong-device|module-left-on-other-device
# guilty: ?
import kit
import torch

model = kit.Auto().to("cuda:0")
model(torch.randn(4, 6, device="cuda:0")).mean().backward()
