import torch
from torch import nn


class Viewer(nn.Module):
    def __init__(self, size=8):
        super().__init__()
        self.words = nn.Embedding(20, size)
        self.eye = nn.Sequential(nn.Linear(12, size), nn.GELU())
        self.blocks = nn.ModuleList(nn.Linear(size, size) for _ in range(2))

    def see(self, pixels):
        return self.eye(pixels)

    def forward(self, ids, pixels):
        text = self.words(ids)
        seen = self.see(pixels)
        hidden = torch.where((ids == 5)[..., None], text + seen, text)
        for block in self.blocks:
            hidden = block(hidden)
        return hidden
