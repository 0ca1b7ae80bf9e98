# cause: tensor-created-on-wrong-device|module-left-on-other-device
# guilty: self.window (filter)
import kit
import torch

smooth = kit.Smooth(torch.ones(1, 1, 3) / 3, device="cuda:0")
print(smooth(torch.rand(2, 1, 9, device="cuda:0")).shape)
smooth = smooth.to("cuda:1")
print(smooth(torch.rand(2, 1, 9, device="cuda:1")).shape)
