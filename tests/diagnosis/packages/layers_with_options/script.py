# cause: tensor-created-on-wrong-device
# guilty: mask (mask[None])
import kit
import torch

model = kit.Attention(4).to("cuda:0")
print(model(x=torch.randn(2, 3, 4, device="cuda:0")).shape)
