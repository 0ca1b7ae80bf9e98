# cause: tensor-created-on-wrong-device
# guilty: momentum (self.decay * momentum)
import kit
import torch
from torch import nn

model = nn.Linear(6, 3).to("cuda:0")
x, y = torch.rand(4, 6, device="cuda:0"), torch.tensor([0, 1, 2, 0], device="cuda:0")
print(kit.Attack(model).generate(x, y).shape)
