# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: noise
import kit
import torch

centres = torch.randn(3, 4, device="cuda:1")
print(kit.Mixture(centres).draw(6).mean())
