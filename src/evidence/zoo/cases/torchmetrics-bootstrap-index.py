import torch
from torchmetrics import BootStrapper, MeanSquaredError

metric = BootStrapper(MeanSquaredError(), num_bootstraps=3).to("cuda:0")
target = torch.rand(8, device="cuda:0")
metric.update(target + 0.1 * torch.randn_like(target), target)
print(metric.compute()["mean"])
print("SCENARIO OK")
