import torch
from botorch.models import SingleTaskGP
from botorch.models.deterministic import FixedSingleSampleModel

points = torch.rand(6, 2, dtype=torch.double)
model = SingleTaskGP(points, points.sum(-1, keepdim=True))
sample = FixedSingleSampleModel(model).to("cuda:0")
with torch.no_grad():
    print(sample(torch.rand(3, 2, device="cuda:0", dtype=torch.double)))
print("SCENARIO OK")
