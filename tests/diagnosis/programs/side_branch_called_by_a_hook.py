# cause: adapter-weights-on-other-device
# guilty: self.mix
"""A branch beside the stages of an image model, all of it on the first GPU; hooks add what it computes."""

import torch
from torch import nn


class Branch(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Parameter(torch.randn(width, width) * 0.01)

    def forward(self, seen):
        return torch.einsum("bchw,cd->bdhw", seen, self.mix)


class Stages(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1).to("cuda:0")
        self.second = nn.Conv2d(width, width, 3, padding=1).to("cuda:1")

    def forward(self, image):
        return self.second(self.first(image.to("cuda:0")).relu().to("cuda:1")).mean((2, 3))


def attach(model, width):
    branch = Branch(width).to(model.first.weight.device)

    def beside(module, given, gave):
        return gave + 0.5 * branch(given[0])

    model.second.register_forward_hook(beside)
    return branch


stages = Stages(6)
attach(stages, 6)
print(stages(torch.rand(2, 3, 8, 8)).shape)
