# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: x (self.channel(x) or self.token(x))
import torch
from torch import nn
from accelerate import dispatch_model


class TokenMix(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mix = nn.Linear(tokens, tokens)

    def forward(self, x):
        return self.mix(self.norm(x).transpose(1, 2)).transpose(1, 2)


class ChannelMix(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.token = TokenMix(tokens, dim)
        self.channel = ChannelMix(dim)

    def forward(self, x):
        x = x + self.token(x)
        return x + self.channel(x)


class Mixer(nn.Module):
    def __init__(self, dim=32, depth=3, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, dim, 8, 8)
        self.blocks = nn.ModuleList(MixerBlock(16, dim) for _ in range(depth))
        self.head = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.stem(img).flatten(2).transpose(1, 2)
        for b in self.blocks:
            x = b(x)
        return self.head(x.mean(1))


def balance(model, devices):
    """Fill the devices one after another, by number of parameters."""
    units = []
    for name, child in model.named_children():
        if isinstance(child, nn.ModuleList):
            for i, block in enumerate(child):
                units += [(f"{name}.{i}.{part}", m) for part, m in block.named_children()]
        else:
            units.append((name, child))
    size = lambda m: sum(p.numel() for p in m.parameters())
    budget = sum(size(m) for _, m in units) / len(devices)
    placed, used = {}, 0
    for name, m in units:
        placed[name] = devices[min(int((used + size(m)) / budget), len(devices) - 1)]
        used += size(m)
    return placed


model = Mixer().eval()
plan = balance(model, ["cuda:0", "cuda:1"])
model = dispatch_model(model, device_map=plan)
with torch.no_grad():
    logits = model(torch.randn(2, 3, 32, 32))
print(logits.shape)
