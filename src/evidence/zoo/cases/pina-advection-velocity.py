import torch
from pina import LabelTensor
from pina.equation import Advection

device = torch.device("cuda:0")
network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(device)
points = LabelTensor(torch.rand(16, 2, device=device), ["x", "t"]).requires_grad_()
flow = network(points)
flow.labels = ["u"]
residual = Advection(c=0.5).residual(points, flow)
residual.square().mean().backward()
print(network[0].weight.grad.norm())
print("SCENARIO OK")
