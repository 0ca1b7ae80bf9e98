# cause: tensor-created-on-wrong-device
# guilty: ?
import kit
import torch

painter = kit.Painter().to("cuda:0")
print(kit.Pipeline(painter)(torch.randn(2, 4, device="cuda:0")).shape)
