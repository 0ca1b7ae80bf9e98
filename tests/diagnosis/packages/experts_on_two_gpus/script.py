# cause: block-split-across-devices
# guilty: ?
import kit
import torch

model = kit.Experts(4).spread()
with torch.no_grad():
    print(model(torch.randn(6, 4, device="cuda:0")).shape)
