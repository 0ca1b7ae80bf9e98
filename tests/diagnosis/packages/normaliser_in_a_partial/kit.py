from functools import partial

from torch import nn


def normalise(x, mean, std):
    return (x - mean[:, None, None]) / std[:, None, None]


class Backbone(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.pre = partial(normalise, mean=mean, std=std)
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, images):
        return self.conv(self.pre(images)).mean((2, 3))
