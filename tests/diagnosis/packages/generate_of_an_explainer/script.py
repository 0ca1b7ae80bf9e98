# cause: tensor-created-on-wrong-device
# guilty: mask
import kit
import torch
from torch import nn

net = nn.Linear(8, 2).to("cuda:1")
with torch.no_grad():
    print(kit.Explainer(net).generate(torch.rand(1, 8, device="cuda:1")))
