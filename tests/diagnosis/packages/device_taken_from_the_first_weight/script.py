# cause: tensor-created-on-wrong-device|block-split-across-devices|extra-input-on-wrong-device
# guilty: places
import kit
import torch

model = kit.Stack()
model.front.to("cuda:0")
model.back.to("cuda:1")
print(model(torch.randn(2, 8, device="cuda:0")).shape)
