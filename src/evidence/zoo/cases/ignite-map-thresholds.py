import torch
from ignite.metrics import MeanAveragePrecision

metric = MeanAveragePrecision(rec_thresholds=(0.0, 0.25, 0.5, 0.75, 1.0), is_multilabel=True, device="cuda:0")
scores = torch.rand(8, 3, device="cuda:0")
labels = torch.randint(0, 2, (8, 3), device="cuda:0")
metric.update((scores, labels))
print(metric.compute())
print("SCENARIO OK")
