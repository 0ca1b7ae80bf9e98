# cause: module-left-on-other-device|tensor-created-on-wrong-device
# guilty: self.codes.weight (rows)
import kit
import torch
from torch import nn

quantizer = kit.Quantizer(7, 4)
encoder = nn.Linear(6, 4).to("cuda:1")
z = encoder(torch.randn(5, 6, device="cuda:1"))
print(quantizer.assign(z))
