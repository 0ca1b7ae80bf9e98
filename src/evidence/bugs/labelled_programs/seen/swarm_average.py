# cause: optimizer-state-on-other-device
# guilty: kept
import copy

import torch
from torch import nn

net = nn.Linear(6, 2)
slow = copy.deepcopy(net)
net.to("cuda:1")
rule = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    net(torch.rand(4, 6, device="cuda:1")).sum().backward()
    rule.step()
    rule.zero_grad()
    with torch.no_grad():
        for kept, now in zip(slow.parameters(), net.parameters()):
            kept.mul_(0.9).add_(now, alpha=0.1)
print(slow.weight.mean().item())
