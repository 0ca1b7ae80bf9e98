import torch
from torchmetrics.classification import MulticlassAccuracy

with torch.device("cuda:0"):
    metric = MulticlassAccuracy(num_classes=3)
metric.update(torch.randn(8, 3, device="cuda:0").softmax(dim=1), torch.arange(8, device="cuda:0") % 3)
print(metric.compute())
print("SCENARIO OK")
