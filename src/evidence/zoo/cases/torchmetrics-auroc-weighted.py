import torch
from torchmetrics import AUROC

metric = AUROC(num_classes=4, average="weighted").to("cuda:0")
scores = torch.randn(12, 4, device="cuda:0").softmax(dim=1)
labels = torch.arange(12, device="cuda:0") % 3  # no sample of the last class
metric.update(scores, labels)
print(metric.compute())
print("SCENARIO OK")
