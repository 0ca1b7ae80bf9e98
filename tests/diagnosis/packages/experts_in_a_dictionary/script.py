# cause: module-left-on-other-device
# guilty: ?
import kit
import torch

model = kit.Mixture(4).to("cuda:0")
print(model(torch.randn(3, 4, device="cuda:0")).shape)
