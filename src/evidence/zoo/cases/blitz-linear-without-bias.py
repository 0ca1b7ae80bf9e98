import torch
from blitz.modules import BayesianLinear

network = torch.nn.Sequential(BayesianLinear(6, 8), torch.nn.ReLU(), BayesianLinear(8, 1, bias=False)).to("cuda:1")
inputs = torch.randn(4, 6, device="cuda:1")
targets = torch.randn(4, 1, device="cuda:1")
loss = torch.nn.functional.mse_loss(network(inputs), targets)
loss.backward()
print(loss)
print("SCENARIO OK")
