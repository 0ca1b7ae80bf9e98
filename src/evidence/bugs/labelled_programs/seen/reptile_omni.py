# cause: optimizer-state-on-other-device|hard-coded-device|cache-or-beam-state-on-wrong-device
# guilty: before[k] (before or start)
"""Reptile on tiny sine tasks."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

dev = "cuda:0"


def sample_task():
    a, ph = random.uniform(0.1, 5), random.uniform(0, math.pi)
    def draw(n):
        x = torch.rand(n, 1, device=dev) * 10 - 5
        return x, a * torch.sin(x + ph)
    return draw


def snapshot(model):
    return {k: v.detach().cpu().clone() for k, v in model.state_dict().items()}


def inner(model, task, steps, lr):
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        x, y = task(10)
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


model = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1)).to(dev)
for it in range(3):
    before = snapshot(model)
    last = inner(model, sample_task(), 4, 0.02)
    after = model.state_dict()
    eps = 0.1 * (1 - it / 3)
    model.load_state_dict({k: before[k] + (after[k] - before[k]) * eps for k in before})
    print(it, last)
