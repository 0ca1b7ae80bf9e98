# cause: tensor-created-on-wrong-device
# guilty: self.window (window)
# after: ProjectNeura/MIPCandy#33
import torch
from torch import nn


class Blender:
    def __init__(self, size):
        ramp = torch.hann_window(size + 2, periodic=False)[1:-1]
        self.size, self.window = size, ramp

    def join(self, parts, length):
        out = parts.new_zeros(parts.shape[1], length)
        weight = parts.new_zeros(length)
        step = self.size // 2
        for number, part in enumerate(parts):
            span = slice(number * step, number * step + self.size)
            out[:, span] += part * self.window
            weight[span] += self.window
        return out / weight.clamp(min=1e-3)


device = torch.device("cuda:0")
separator = nn.Conv1d(1, 2, 5, padding=2).to(device).eval()
wave = torch.randn(40, device=device)
tiles = wave.unfold(0, 16, 8)[:, None]
with torch.no_grad():
    print(Blender(16).join(separator(tiles), 40).shape)
