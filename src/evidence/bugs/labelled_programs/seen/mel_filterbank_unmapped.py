# cause: device-map-incomplete-or-wrong
# guilty: self.fbank
# line: 32
# repair: name the front end in the map: device_map["frontend"] = "cuda:0" (its buffers are not persistent, so the check of the map did not miss them) OR move it by hand before dispatch_model: model.frontend.to("cuda:0")
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model


def triangular_bank(n_freq, n_mels, rate):
    top = 2595 * math.log10(1 + rate / 2 / 700)
    points = 700 * (10 ** (torch.linspace(0, top, n_mels + 2) / 2595) - 1)
    freqs = torch.linspace(0, rate / 2, n_freq)
    left, centre, right = points[:-2], points[1:-1], points[2:]
    rise = (freqs[:, None] - left) / (centre - left)
    fall = (right - freqs[:, None]) / (right - centre)
    return torch.minimum(rise, fall).clamp(min=0)


class LogMel(nn.Module):
    def __init__(self, rate=8000, size=128, hop=64, n_mels=24):
        super().__init__()
        self.size, self.hop = size, hop
        self.register_buffer("fbank", triangular_bank(size // 2 + 1, n_mels, rate), persistent=False)

    def forward(self, wave):
        frames = wave.unfold(-1, self.size, self.hop)
        power = torch.fft.rfft(frames - frames.mean(-1, keepdim=True)).abs().pow(2)
        mel = power @ self.fbank
        return (mel + 1e-6).log()


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.time = nn.Conv1d(dim, dim, 5, padding=2)
        self.feed = nn.Linear(dim, dim)

    def forward(self, x):
        y = self.time(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.feed(F.gelu(y))


class SoundTagger(nn.Module):
    def __init__(self, dim=32, depth=4, tags=6):
        super().__init__()
        self.frontend = LogMel()
        self.proj = nn.Linear(24, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Linear(dim, tags)

    def forward(self, wave):
        x = self.proj(self.frontend(wave))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


def device_map_for(model, cards=("cuda:0", "cuda:1")):
    depth = len(model.blocks)
    device_map = {"proj": cards[0], "head": cards[-1]}
    for i in range(depth):
        device_map[f"blocks.{i}"] = cards[i * len(cards) // depth]
    return device_map


def main():
    torch.manual_seed(0)
    model = SoundTagger()
    model = dispatch_model(model, device_map=device_map_for(model))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        wave = torch.randn(4, 2048, device="cuda:0")
        tags = torch.randint(0, 2, (4, 6), device="cuda:0").float()
        loss = F.binary_cross_entropy_with_logits(model(wave), tags)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


main()
