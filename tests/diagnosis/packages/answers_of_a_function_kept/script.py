# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: ?
import kit
import torch

model = kit.Spectrum().to("cuda:1")
print(model(torch.randn(2, 32, device="cuda:1")).shape)
