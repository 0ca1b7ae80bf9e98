import torch
from torch import nn


class Towers(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.image = nn.Linear(6, size)
        self.text = nn.EmbeddingBag(20, size)

    def spread(self, image, text):
        self.image.to(image)
        self.text.to(text)
        return self

    def forward(self, pixels, ids):
        seen = nn.functional.normalize(self.image(pixels), dim=-1)
        read = nn.functional.normalize(self.text(ids), dim=-1)
        return seen @ read.T
