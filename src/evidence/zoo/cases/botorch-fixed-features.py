import torch
from botorch.acquisition import FixedFeatureAcquisitionFunction, qSimpleRegret
from botorch.models import SingleTaskGP

points = torch.rand(6, 3, device="cuda:0", dtype=torch.double)
model = SingleTaskGP(points, points.sum(-1, keepdim=True))
regret = qSimpleRegret(model)
season = torch.full((2, 1), 0.25, device="cuda:0", dtype=torch.double)
fixed = FixedFeatureAcquisitionFunction(regret, d=3, columns=[1, 2], values=[season, 0.5])
print(fixed(torch.rand(1, 2, 1, device="cuda:0", dtype=torch.double)))
print("SCENARIO OK")
