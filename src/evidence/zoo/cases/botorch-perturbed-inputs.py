import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import InputPerturbation

points = torch.rand(8, 2, dtype=torch.double)
noise = 0.05 * torch.randn(5, 2, dtype=torch.double)
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
transform = InputPerturbation(perturbation_set=noise, bounds=bounds)
model = SingleTaskGP(points, points.sum(-1, keepdim=True), input_transform=transform).to("cuda:1").eval()
query = torch.rand(3, 2, device="cuda:1", dtype=torch.double)
print(model.posterior(query).variance.shape)
print("SCENARIO OK")
