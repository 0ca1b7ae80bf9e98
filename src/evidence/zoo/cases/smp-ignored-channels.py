import torch
from segmentation_models_pytorch.utils.metrics import IoU

metric = IoU(threshold=0.5, ignore_channels=[0])
predicted = torch.rand(2, 3, 8, 8, device="cuda:0")
target = (torch.rand(2, 3, 8, 8, device="cuda:0") > 0.5).float()
print(metric(predicted, target))
print("SCENARIO OK")
