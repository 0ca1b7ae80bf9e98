# cause: metric-state-device|tensor-created-on-wrong-device
# guilty: self.mean
import kit
import torch
from torch import nn

policy = nn.Linear(4, 2).to("cuda:0")
stats = kit.RunningMean(4)
for _ in range(2):
    seen = torch.randn(6, 4, device="cuda:0")
    stats.update(seen)
    policy(stats.normalise(seen)).sum().backward()
