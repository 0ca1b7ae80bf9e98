# cause: metric-state-device
# guilty: ?
import kit
import torch
from torch import nn

net = nn.Linear(4, 3).to("cuda:0")
metric = kit.Metric()
with torch.no_grad():
    metric.update(net(torch.randn(5, 4, device="cuda:0")))
print(metric.compute())
