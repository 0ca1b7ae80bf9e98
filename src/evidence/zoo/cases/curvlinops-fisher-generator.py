import numpy
import torch
from curvlinops import FisherMCLinearOperator

device = torch.device("cuda:0")
model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)).to(device)
data = [(torch.randn(6, 4), torch.randint(3, (6,))) for _ in range(2)]
parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
fisher = FisherMCLinearOperator(model, torch.nn.CrossEntropyLoss(), parameters, data)
vector = numpy.ones(fisher.shape[1], dtype=fisher.dtype)
print((fisher @ vector).shape)
print("SCENARIO OK")
