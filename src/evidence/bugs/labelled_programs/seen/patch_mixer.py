# cause: block-split-across-devices
# guilty: x
"""Patch mixer for small images; parts are spread over the cards by their parameter count."""
import torch
from torch import nn


class Ff(nn.Sequential):
    def __init__(self, dim, hidden):
        super().__init__(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))


def home(module):
    return next(module.parameters()).device


class Mixer(nn.Module):
    def __init__(self, patches, width):
        super().__init__()
        self.norm1, self.across = nn.LayerNorm(width), Ff(patches, 2 * patches)
        self.norm2, self.within = nn.LayerNorm(width), Ff(width, 4 * width)

    def forward(self, x):
        x = x.to(home(self.norm1))
        h = self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        x = x + h
        y = self.within(self.norm2(x).to(home(self.within)))
        return x + y


class Classifier(nn.Module):
    def __init__(self, patch=4, size=16, width=24, depth=3, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, width, patch, stride=patch)
        self.blocks = nn.ModuleList(Mixer((size // patch) ** 2, width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, image):
        x = self.stem(image).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        x = x.to(home(self.head))
        return self.head(x.mean(dim=1))


def spread(model, cards):
    """Fill the first card up to its share, then go on with the next one."""
    parts = [model.stem]
    for b in model.blocks:
        parts += [b.norm1, b.across, b.norm2, b.within]
    parts.append(model.head)
    sizes = [sum(p.numel() for p in part.parameters()) for part in parts]
    share, used, card = sum(sizes) / len(cards), 0, 0
    for part, size in zip(parts, sizes):
        if used + size > share and card + 1 < len(cards):
            card, used = card + 1, 0
        part.to(cards[card])
        used += size
    return model


torch.manual_seed(14)
model = spread(Classifier(), ["cuda:0", "cuda:1"])
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(3):
    image = torch.rand(8, 3, 16, 16, device="cuda:0")
    label = torch.randint(10, (8,))
    logits = model(image)
    loss = nn.functional.cross_entropy(logits, label.to(logits.device))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, round(loss.item(), 4))
