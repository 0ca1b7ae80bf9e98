# cause: loss-or-label-on-other-device|embedding-streams-on-different-devices
# guilty: fixed (features or now)
"""Two copies of a network on two GPUs: what the older one computed is compared with what the newer one does."""
import copy

import torch
from torch import nn

base = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)).to("cuda:0")
newer = copy.deepcopy(base).to("cuda:1")
optimizer = torch.optim.SGD(newer.parameters(), lr=0.1)
for _ in range(2):
    windows = torch.randn(4, 8)
    with torch.no_grad():
        fixed = base(windows.to("cuda:0")).clone()
    now = newer(windows.to("cuda:1"))
    loss = (now - fixed).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
