import torch
from botorch.acquisition import qExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.optim.initializers import gen_batch_initial_conditions

x = torch.rand(6, 2, device="cuda:0", dtype=torch.double)
model = SingleTaskGP(x, x.sum(dim=-1, keepdim=True))
acquisition = qExpectedImprovement(model, best_f=1.2)
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], device="cuda:0", dtype=torch.double)
at_most_one = (torch.tensor([0, 1], device="cuda:0"), torch.tensor([-1.0, -1.0], device="cuda:0", dtype=torch.double), -1.0)
start = gen_batch_initial_conditions(acquisition, bounds, q=1, num_restarts=2, raw_samples=8,
                                     options={"seed": 1}, inequality_constraints=[at_most_one])
print(start.shape)
print("SCENARIO OK")
