# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: self.ffn(self.norm2(x)) (x, self.ffn)
# line: 21
# repair: in Partitioner.units keep residual blocks whole: treat classes named in `keep` (here MixerBlock) as one unit instead of descending to leaf modules, e.g. Partitioner(2, keep=(MixerBlock,))
"""Fill GPUs one after the other with the modules of a time-series mixer."""
import torch
import torch.nn as nn
from accelerate import dispatch_model


class MixerBlock(nn.Module):
    def __init__(self, steps, dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.mix = nn.Linear(steps, steps)
        self.norm2 = nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.mix(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.ffn(self.norm2(x))


class Forecaster(nn.Module):
    def __init__(self, channels, steps, horizon, dim=32, depth=3):
        super().__init__()
        self.inlet = nn.Linear(channels, dim)
        self.blocks = nn.ModuleList(MixerBlock(steps, dim) for _ in range(depth))
        self.time = nn.Linear(steps, horizon)
        self.outlet = nn.Linear(dim, channels)

    def forward(self, series):
        x = self.inlet(series)
        for block in self.blocks:
            x = block(x)
        x = self.time(x.transpose(1, 2)).transpose(1, 2)
        return self.outlet(x)


class Partitioner:
    """Greedy: a module goes to the current GPU until its share of the weights is used up."""

    def __init__(self, gpus, keep=()):
        self.gpus, self.keep = gpus, keep

    def units(self, module, prefix=""):
        for name, child in module.named_children():
            path = f"{prefix}{name}"
            if isinstance(child, self.keep) or not list(child.children()):
                yield path, child
            else:
                yield from self.units(child, path + ".")

    def device_map(self, model):
        units = [(path, sum(p.numel() for p in unit.parameters())) for path, unit in self.units(model)]
        share = sum(size for _, size in units) / self.gpus
        placed, filled = {}, 0
        for path, size in units:
            placed[path] = min(int(filled // share), self.gpus - 1)
            filled += size
        return placed


def build(channels, steps, horizon, gpus):
    model = Forecaster(channels, steps, horizon).eval()
    device_map = Partitioner(gpus).device_map(model)
    return dispatch_model(model, device_map=device_map)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = build(channels=5, steps=48, horizon=12, gpus=2)
    t = torch.arange(48).float()
    series = torch.stack([torch.sin(t / (3 + i)) for i in range(5)], dim=1).unsqueeze(0)
    with torch.no_grad():
        print("forecast", model(series)[0, :, 0].tolist())
