# cause: data-parallel-replica-device
# guilty: ?
"""Crop disease classifier; a decorator measures the forward passes."""
import time

import torch
import torch.nn as nn


def timed(module, log):
    inner = module.forward

    def forward(*args, **kwargs):
        t = time.perf_counter()
        out = inner(*args, **kwargs)
        log.append(time.perf_counter() - t)
        return out

    module.forward = forward
    return module


class LeafNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.fc = nn.Linear(32, n_classes)

    def forward(self, img):
        return self.fc(self.body(img))


def train(epochs=1):
    log = []
    net = timed(LeafNet(10), log).cuda()
    net = nn.DataParallel(net, device_ids=[0, 1])
    crit = nn.CrossEntropyLoss()
    opt = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(epochs):
        for _ in range(2):
            img, lab = torch.randn(8, 3, 32, 32).cuda(), torch.randint(0, 10, (8,)).cuda()
            opt.zero_grad()
            loss = crit(net(img), lab)
            loss.backward()
            opt.step()
    print(sum(log))


train()
