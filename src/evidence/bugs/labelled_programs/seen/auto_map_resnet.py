# cause: block-split-across-devices
# guilty: ?
"""Spread a small ResNet over the cards with accelerate and time a forward pass."""
import time

import torch
from accelerate import dispatch_model, infer_auto_device_map
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1 = nn.Conv2d(c, c, 1)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1)
        self.conv3 = nn.Conv2d(c, c, 1)
        self.act = nn.ReLU()

    def forward(self, x):
        y = self.act(self.conv1(x))
        y = self.act(self.conv2(y))
        y = self.conv3(y)
        return self.act(x + y)


class ResNet(nn.Module):
    def __init__(self, c=32, depth=4, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, 2, 1)
        self.stages = nn.ModuleList(Bottleneck(c) for _ in range(depth))
        self.fc = nn.Linear(c, classes)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.fc(x.mean((2, 3)))


def place(model):
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    budget = {0: int(size * 0.62), 1: size, "cpu": 0}
    plan = infer_auto_device_map(model, max_memory=budget)
    return dispatch_model(model, device_map=plan)


def main():
    torch.manual_seed(0)
    model = place(ResNet().eval())
    images = torch.rand(8, 3, 32, 32)
    with torch.inference_mode():
        t0 = time.perf_counter()
        out = model(images.to("cuda:0"))
    print(tuple(out.shape), f"{time.perf_counter() - t0:.2f}s")


main()
