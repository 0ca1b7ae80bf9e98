# cause: tensor-created-on-wrong-device
# guilty: steps (steps[None, :, None])
import kit
import torch

model = kit.Forecaster(4).to("cuda:1")
print(model(torch.randn(2, 3, 4, device="cuda:1")).shape)
