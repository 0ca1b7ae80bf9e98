# cause: device-map-incomplete-or-wrong
# guilty: pos
import math

import torch
from accelerate import dispatch_model
from torch import nn


class Positions(nn.Module):
    def __init__(self, dim, length):
        super().__init__()
        rate = torch.exp(torch.arange(0, dim, 2) * (-math.log(1e4) / dim))
        angle = torch.arange(length)[:, None] * rate
        self.register_buffer("table", torch.cat([angle.sin(), angle.cos()], -1), persistent=False)

    def forward(self, n):
        return self.table[:n]


class AudioTagger(nn.Module):
    def __init__(self, mels=16, dim=32, depth=4, tags=9):
        super().__init__()
        self.project = nn.Linear(mels, dim)
        self.positions = Positions(dim, 200)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True) for _ in range(depth)
        )
        self.tags = nn.Linear(dim, tags)

    def forward(self, spectrogram):
        frames = self.project(spectrogram)
        pos = self.positions(frames.size(1))
        h = torch.add(frames, pos)
        for layer in self.layers:
            h = layer(h)
        return self.tags(h.mean(1)).sigmoid()


def load(depth=4):
    torch.manual_seed(0)
    device_map = {"project": 0, "tags": 1}
    device_map.update({f"layers.{i}": int(i >= depth // 2) for i in range(depth)})
    return dispatch_model(AudioTagger(depth=depth).train(), device_map=device_map)


if __name__ == "__main__":
    tagger = load()
    clip = torch.randn(2, 50, 16)
    scores = tagger(clip)
    print(scores.topk(3).indices.tolist())
