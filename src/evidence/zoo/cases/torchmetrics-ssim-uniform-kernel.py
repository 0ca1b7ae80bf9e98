import torch
from torchmetrics import StructuralSimilarityIndexMeasure

metric = StructuralSimilarityIndexMeasure(gaussian_kernel=False, kernel_size=5, data_range=1.0).to("cuda:0")
for _ in range(2):
    clean = torch.rand(2, 3, 16, 16, device="cuda:0")
    metric.update((clean + 0.1 * torch.randn_like(clean)).clamp(0, 1), clean)
print(metric.compute())
print("SCENARIO OK")
