# cause: tensor-created-on-wrong-device
# guilty: self.advance
# after: pytorch/audio#457
import math

import torch
from torch import nn


class Stretch(nn.Module):
    def __init__(self, bins, hop):
        super().__init__()
        self.advance = torch.linspace(0, math.pi * hop, bins)[..., None]

    def forward(self, spec, rate):
        steps = torch.arange(0, spec.shape[-1] - 1, rate, device=spec.device)
        picked = spec[..., steps.long()]
        angle = torch.angle(picked)
        phase = angle.diff(dim=-1) - self.advance
        phase = phase - 2 * math.pi * torch.round(phase / (2 * math.pi))
        return picked.abs()[..., 1:] * torch.cos(phase)


device = torch.device("cuda:0")
stretch = Stretch(33, 16).to(device)
front = nn.Linear(33, 8).to(device)
wave = torch.randn(2, 800, device=device)
spec = torch.stft(wave, 64, 16, window=torch.hann_window(64, device=device), return_complex=True)
print(front(stretch(spec, 1.3).transpose(1, 2)).shape)
