# cause: device-ordinal-out-of-range
# guilty: ?
"""Pipeline of a small U-Net for weather downscaling."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Stage:
    number: int
    module: nn.Module

    @property
    def device(self):
        return torch.device(f"cuda:{self.number}")

    def build(self):
        self.module.to(self.device)
        return self

    def __call__(self, x):
        return self.module(x.to(self.device))


def conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(2, cout), nn.SiLU())


class Downscaler:
    def __init__(self, fields=4, width=8):
        parts = [conv(fields, width), nn.Sequential(conv(width, width), nn.Conv2d(width, 1, 1))]
        self.stages = [Stage(i, m).build() for i, m in enumerate(parts, start=1)]

    def parameters(self):
        for stage in self.stages:
            yield from stage.module.parameters()

    def __call__(self, coarse):
        x = nn.functional.interpolate(coarse, scale_factor=2, mode="bilinear")
        for stage in self.stages:
            x = stage(x)
        return x


def samples(n):
    for _ in range(n):
        coarse = torch.randn(2, 4, 8, 8)
        yield coarse, coarse[:, :1].repeat_interleave(2, 2).repeat_interleave(2, 3)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Downscaler()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for coarse, fine in samples(4):
        pred = model(coarse)
        loss = nn.functional.mse_loss(pred, fine.to(pred.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("mse", float(loss))
