# cause: adapter-weights-on-other-device
# guilty: self.extra (self.extra(mixed) or self.extra.0.weight)
"""A mixer gets bottlenecks for a new speaker after it was placed; the method that adds them is its own."""
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.mix = nn.Linear(width, width)
        self.extra = None

    def add_speaker(self, rank=2):
        self.extra = nn.Sequential(nn.Linear(self.width, rank), nn.ReLU(), nn.Linear(rank, self.width))

    def forward(self, frames):
        mixed = self.mix(frames)
        return mixed if self.extra is None else mixed + self.extra(mixed)


class Vocoder(nn.Module):
    def __init__(self, width=6, depth=3):
        super().__init__()
        self.mixers = nn.ModuleList(Mixer(width) for _ in range(depth))
        self.wave = nn.Linear(width, 2)

    def adapt(self):
        for mixer in self.mixers:
            mixer.add_speaker()

    def forward(self, frames):
        for mixer in self.mixers:
            frames = mixer(frames)
        return self.wave(frames)


vocoder = Vocoder().to("cuda:0")
vocoder.adapt()
print(vocoder(torch.randn(2, 5, 6, device="cuda:0")).shape)
