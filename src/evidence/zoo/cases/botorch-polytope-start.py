import torch
from botorch.utils.sampling import HitAndRunPolytopeSampler

torch.set_default_device("cuda:0")
weights = torch.tensor([[1.0, 1.0, 1.0]], dtype=torch.double)
limit = torch.tensor([[2.0]], dtype=torch.double)
bounds = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.double)
sampler = HitAndRunPolytopeSampler(inequality_constraints=(weights, limit), bounds=bounds, n_burnin=4,
                                   n_thinning=1, seed=0)
print(sampler.draw(3).shape)
print("SCENARIO OK")
