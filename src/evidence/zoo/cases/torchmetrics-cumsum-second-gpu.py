import torch
from torchmetrics.classification import BinaryAUROC

torch.use_deterministic_algorithms(True, warn_only=True)
model = torch.nn.Linear(8, 1).to("cuda:1")
metric = BinaryAUROC().to("cuda:1")
with torch.no_grad():
    for _ in range(2):
        x, y = torch.randn(16, 8, device="cuda:1"), torch.arange(16, device="cuda:1") % 2
        metric.update(model(x).sigmoid().squeeze(1), y)
print(metric.compute())
print("SCENARIO OK")
