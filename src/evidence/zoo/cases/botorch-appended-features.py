import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import AppendFeatures

points = torch.rand(8, 2, dtype=torch.double)
features = torch.rand(4, 1, dtype=torch.double)
model = SingleTaskGP(points, points.sum(-1, keepdim=True), input_transform=AppendFeatures(feature_set=features))
model = model.to("cuda:0").eval()
print(model.posterior(torch.rand(3, 1, device="cuda:0", dtype=torch.double)).mean.shape)
print("SCENARIO OK")
