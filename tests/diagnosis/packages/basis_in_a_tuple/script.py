# cause: module-left-on-other-device|tensor-created-on-wrong-device
# guilty: table (table.T)
import kit
import torch
from torch import nn

shape = kit.Shape(2, 3)
head = nn.Linear(4, 5).to("cuda:0")
turned = shape.turn(head(torch.randn(6, 4, device="cuda:0")))
turned.square().sum().backward()
