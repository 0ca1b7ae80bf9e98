# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: self.weights
# after: speechbrain/speechbrain#993
import torch
from torch import nn


class SpeedPerturb:
    def __init__(self, factor):
        self.factor = factor
        self.weights = None

    def __call__(self, wave):
        if self.weights is None:
            taps = torch.arange(-4, 5, device=wave.device) / self.factor
            self.weights = torch.sinc(taps) * torch.hann_window(9, device=wave.device)
        kernel = self.weights.view(1, 1, -1)
        return nn.functional.conv1d(wave[:, None], kernel, padding=4)[:, 0]


speed = SpeedPerturb(1.1)
encoders = [nn.Conv1d(1, 4, 8, 4).to(f"cuda:{g}") for g in range(2)]
waves = torch.randn(4, 320)
outs = []
for gpu, (encoder, part) in enumerate(zip(encoders, waves.chunk(2))):
    part = part.to(f"cuda:{gpu}")
    outs.append(encoder(speed(part)[:, None]).cpu())
print(torch.cat(outs).shape)
