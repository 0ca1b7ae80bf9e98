# cause: block-split-across-devices
# guilty: ?
import kit
import torch

model = kit.Halves(4).spread("cuda:0", "cuda:1")
print(model(torch.randn(3, 4, device="cuda:0")).shape)
