# cause: tensor-created-on-wrong-device
# guilty: ?
import kit
import torch
from torch import nn

field = nn.Linear(3, 3).to("cuda:1")
with torch.no_grad():
    print(kit.integrate(field, torch.randn(2, 3, device="cuda:1")).shape)
