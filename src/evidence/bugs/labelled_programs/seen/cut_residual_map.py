# cause: block-split-across-devices
# guilty: ?
import torch
from accelerate import dispatch_model
from torch import nn


class Mixer(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.token = nn.Linear(tokens, tokens)
        self.channel = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        mixed = self.token(self.norm1(x).mT).mT
        x = torch.add(x, mixed)
        return torch.add(x, self.channel(self.norm2(x)))


class MLPMixer(nn.Module):
    def __init__(self, tokens=16, dim=32, depth=3):
        super().__init__()
        self.embed = nn.Linear(48, dim)
        self.blocks = nn.ModuleList(Mixer(tokens, dim) for _ in range(depth))
        self.head = nn.Linear(dim, 10)

    def forward(self, patches):
        x = self.embed(patches)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


device_map = {
    "embed": 0,
    "blocks.0": 0,
    "blocks.1.norm1": 0,
    "blocks.1.token": 0,
    "blocks.1.norm2": 1,
    "blocks.1.channel": 1,
    "blocks.2": 1,
    "head": 1,
}

torch.manual_seed(0)
model = dispatch_model(MLPMixer().eval(), device_map=device_map)
with torch.no_grad():
    for _ in range(2):
        print(model(torch.rand(4, 16, 48)).argmax(-1))
