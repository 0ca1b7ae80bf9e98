import torch
from e3nn import nn

torch.set_default_device("cuda:0")
activation = nn.Activation("4x0e", [torch.sigmoid])
print(activation(torch.randn(3, 4)).shape)
print("SCENARIO OK")
