# cause: cache-or-beam-state-on-wrong-device
# guilty: pointers (entry.pointer, torch.stack(...))
# line: 40
# repair: bring the pointers back like the maps: entry.pointer.to(device, non_blocking=True) in MemoryBank.read() (or .to(device) on the stacked pointers) OR store the pointers on the compute card in write(), they are small OR use one card as compute and storage device
"""Video object segmentation: the features of past frames wait on a second card until the attention reads them."""
from collections import deque
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Entry:
    maps: torch.Tensor
    phases: torch.Tensor
    pointer: torch.Tensor


class MemoryBank:
    def __init__(self, storage, size=4):
        self.storage = torch.device(storage)
        self.entries = deque(maxlen=size)

    def write(self, maps, phases, pointer):
        self.entries.append(
            Entry(
                maps.detach().to(self.storage, non_blocking=True),
                phases.detach().to(self.storage, non_blocking=True),
                pointer.detach().to(self.storage, non_blocking=True),
            )
        )

    def read(self, device):
        maps = [e.maps.to(device, non_blocking=True).flatten(2).transpose(1, 2) for e in self.entries]
        phases = [e.phases.to(device, non_blocking=True).flatten(2).transpose(1, 2) for e in self.entries]
        pointers = torch.stack([e.pointer for e in self.entries], 1)
        spatial = torch.cat(maps, 1) + torch.cat(phases, 1)
        return torch.cat([spatial, pointers], dim=1)

    def __len__(self):
        return len(self.entries)


def sine_phases(like):
    _, c, h, w = like.shape
    y = torch.linspace(0, 1, h, device=like.device).view(1, 1, h, 1)
    x = torch.linspace(0, 1, w, device=like.device).view(1, 1, 1, w)
    freq = torch.arange(1, c // 2 + 1, device=like.device).view(1, -1, 1, 1) * 3.14
    return torch.cat([torch.sin(freq * y).expand(1, -1, h, w), torch.sin(freq * x).expand(1, -1, h, w)], 1)


class MaskTracker(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.encode = nn.Sequential(
            nn.Conv2d(3, dim, 4, stride=4), nn.GELU(), nn.Conv2d(dim, dim, 3, padding=1), nn.GroupNorm(4, dim)
        )
        self.attend = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.fuse = nn.Conv2d(dim + 1, dim, 1)
        self.mask = nn.ConvTranspose2d(dim, 1, 4, stride=4)
        self.pointer = nn.Linear(dim, dim)
        self.blank = nn.Parameter(torch.zeros(1, 1, dim))

    def condition(self, features, bank):
        tokens = features.flatten(2).transpose(1, 2)
        memory = bank.read(features.device) if len(bank) else self.blank.expand(len(features), -1, -1)
        mixed, _ = self.attend(tokens, memory, memory)
        return (tokens + mixed).transpose(1, 2).view_as(features)

    def forward(self, frame, bank, prompt=None):
        features = self.encode(frame)
        logits = self.mask(self.condition(features, bank))
        if prompt is not None:
            logits = torch.where(prompt, logits.abs() + 1, -logits.abs() - 1)
        small = F.avg_pool2d(logits.sigmoid(), 4)
        memory = self.fuse(torch.cat([features, small], 1))
        pointer = self.pointer((features * small).mean((2, 3)))
        bank.write(memory, sine_phases(memory), pointer)
        return logits


@torch.inference_mode()
def track(model, video, first_mask, compute, storage):
    bank = MemoryBank(storage)
    areas = []
    for i, frame in enumerate(video):
        prompt = first_mask.to(compute) if i == 0 else None
        logits = model(frame[None].to(compute), bank, prompt)
        areas.append((logits > 0).float().mean())
    return torch.stack(areas).tolist()


def main():
    torch.manual_seed(0)
    compute, storage = "cuda:0", "cuda:1"
    model = MaskTracker().to(compute).eval()
    video = torch.rand(8, 3, 32, 32)
    first_mask = torch.zeros(1, 1, 32, 32, dtype=torch.bool)
    first_mask[..., 8:20, 8:20] = True
    print([round(a, 3) for a in track(model, video, first_mask, compute, storage)])


if __name__ == "__main__":
    main()
