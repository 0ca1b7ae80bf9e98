import ot
import torch

device = torch.device("cuda:1")
sources = torch.randn(3, 6, 2, device=device, requires_grad=True)
targets = torch.randn(3, 5, 2, device=device)
costs = ot.dist_batch(sources, targets)
plans = ot.solve_batch(costs, reg=1.0)
plans.value.sum().backward()
print(sources.grad.shape)
print("SCENARIO OK")
