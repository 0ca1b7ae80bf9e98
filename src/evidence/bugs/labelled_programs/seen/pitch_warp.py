# cause: tensor-created-on-wrong-device
# guilty: self.table
# after: pytorch/audio#457
import torch
from torch import nn


class Warp:
    """Bends the mel axis by a table that is made once."""

    def __init__(self, mels, bend):
        places = torch.linspace(-1, 1, mels)
        self.table = places.sign() * places.abs().pow(bend)

    def apply(self, spec):
        low = ((spec.shape[1] - 1) * (self.table + 1) / 2).long()
        weights = self.table.abs().view(1, -1, 1)
        return spec.index_select(1, low.to(spec.device)) * weights


class Voice(nn.Module):
    def __init__(self, mels=12):
        super().__init__()
        self.warp = Warp(mels, 1.5)
        self.conv = nn.Conv1d(mels, 6, 3, padding=1)

    def forward(self, spec):
        return self.conv(self.warp.apply(spec)).mean(-1)


voice = Voice().to("cuda:1")
print(voice(torch.rand(2, 12, 20, device="cuda:1")).shape)
