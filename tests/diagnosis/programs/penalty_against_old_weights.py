# cause: optimizer-state-on-other-device|extra-input-on-wrong-device|loss-or-label-on-other-device
# guilty: start[name] (start)
"""Elastic weight consolidation: a copy of the first task's network goes on learning on the second GPU."""
import copy

import torch
from torch import nn
from torch.nn import functional as F


def consolidated(net, start, importance):
    return sum((importance[name] * (weight - start[name]) ** 2).sum() for name, weight in net.named_parameters())


def next_task(old, device):
    start = {name: weight.clone().detach() for name, weight in old.named_parameters()}
    importance = {name: torch.rand(weight.shape, device=device) for name, weight in old.named_parameters()}
    net = copy.deepcopy(old)
    net.to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(2):
        notes = torch.randn(6, 10, device=device)
        loss = F.mse_loss(net(notes), notes[:, :3]) + consolidated(net, start, importance)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net


first = nn.Sequential(nn.Linear(10, 12), nn.Tanh(), nn.Linear(12, 3)).to("cuda:0")
next_task(first, torch.device("cuda:1"))
