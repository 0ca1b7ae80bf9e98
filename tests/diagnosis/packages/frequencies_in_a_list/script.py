# cause: module-left-on-other-device|tensor-created-on-wrong-device
# guilty: ?
import kit
import torch

model = kit.Fourier(3).to("cuda:0")
print(model(torch.randn(2, 3, device="cuda:0")).shape)
