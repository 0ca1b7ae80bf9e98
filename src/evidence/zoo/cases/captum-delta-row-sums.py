import torch
from captum.attr import IntegratedGradients

model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).to("cuda:0")
gradients = IntegratedGradients(model)
inputs = torch.randn(2, 4, device="cuda:0")
attributions, delta = gradients.attribute(inputs, torch.zeros_like(inputs), target=1, n_steps=5,
                                          return_convergence_delta=True)
print(delta)
print("SCENARIO OK")
