# cause: tensor-created-on-wrong-device
# guilty: self.scale
import kit
import torch
from torch import nn

energy = nn.Linear(3, 1).to("cuda:0")
with torch.no_grad():
    print(kit.Walker(energy, 3).run(torch.zeros(4, 3, device="cuda:0")))
