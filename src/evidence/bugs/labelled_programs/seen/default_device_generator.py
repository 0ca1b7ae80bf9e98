# cause: tensor-created-on-wrong-device|generator-or-default-device|hard-coded-device
# guilty: ?
import torch
from torch import nn

torch.set_default_device("cuda:1")
noise = torch.randn(2, 8)
torch.set_default_device("cpu")
model = nn.Linear(8, 8).to("cuda:0")
x = torch.randn(2, 8).to("cuda:0")
print(model(x + noise))
