import torch
from captum.attr import Saliency

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).to("cuda:0")
print(Saliency(model).attribute(torch.randn(3, 4, device="cuda:0"), target=[0, 2, 1]).shape)
print("SCENARIO OK")
