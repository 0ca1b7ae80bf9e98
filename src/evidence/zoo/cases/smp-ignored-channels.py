import torch
import segmentation_models_pytorch as smp

metric = smp.utils.metrics.IoU(threshold=0.5, ignore_channels=[0])
predicted = torch.rand(2, 3, 8, 8, device="cuda:0")
target = (torch.rand(2, 3, 8, 8, device="cuda:0") > 0.5).float()
print(metric(predicted, target))
print("SCENARIO OK")
