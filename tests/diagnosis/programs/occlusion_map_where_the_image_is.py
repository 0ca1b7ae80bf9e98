# cause: tensor-created-on-wrong-device|lm-head-or-tied-weight-split
# guilty: window (difference)
"""Occlusion: windows over the image are made where the image is; the scores come from the second stage's GPU."""
import torch
from torch import nn


class TwoStages(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(1, 4, 3, padding=1).to("cuda:0")
        self.score = nn.Linear(4, 2).to("cuda:1")

    def forward(self, image):
        return self.score(self.stem(image).relu().mean((2, 3)).to("cuda:1"))


def windows(image, size):
    for top in range(0, image.shape[2], size):
        window = torch.zeros(image.shape[2:], device=image.device)
        window[top : top + size] = 1
        yield window


class Occlusion:
    def __init__(self, score):
        self.score = score

    def explain(self, image, size=2):
        whole = self.score(image)[:, 1]
        parts = []
        for window in windows(image, size):
            difference = whole - self.score(image * (1 - window))[:, 1]
            parts.append((difference[:, None, None] * window).sum(0))
        return torch.stack(parts).sum(0)


model = TwoStages().eval()
with torch.no_grad():
    print(Occlusion(model).explain(torch.rand(3, 1, 6, 6, device="cuda:0")).shape)
