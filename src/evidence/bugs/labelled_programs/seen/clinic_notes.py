# cause: adapter-weights-on-other-device
# guilty: self.down (self.down.weight)
"""Frozen note encoder with one small residual unit per hospital department."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Cfg:
    vocab: int = 120
    width: int = 32
    rank: int = 4
    classes: int = 5
    device: str = "cuda"


class Residual(nn.Module):
    def __init__(self, width, rank):
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return x + self.up(F.silu(self.down(x)))


class NoteEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.tokens = nn.EmbeddingBag(cfg.vocab, cfg.width)
        self.mlp = nn.Sequential(nn.Linear(cfg.width, cfg.width), nn.GELU())
        self.out = nn.Linear(cfg.width, cfg.classes)
        self.units = nn.ModuleDict()
        self.active = None

    def add_department(self, name):
        self.units[name] = Residual(self.cfg.width, self.cfg.rank)
        self.active = name
        return self.units[name].parameters()

    def forward(self, ids):
        h = self.mlp(self.tokens(ids))
        if self.active is not None:
            h = self.units[self.active](h)
        return self.out(h)


def tune(model, params, steps=3):
    cfg = model.cfg
    opt = torch.optim.AdamW(params, lr=1e-2)
    for _ in range(steps):
        ids = torch.randint(cfg.vocab, (8, 12), device=cfg.device)
        y = torch.randint(cfg.classes, (8,), device=cfg.device)
        loss = F.cross_entropy(model(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


cfg = Cfg()
torch.manual_seed(0)
model = NoteEncoder(cfg)
first = model.add_department("cardiology")
model.to(cfg.device)
for p in model.parameters():
    p.requires_grad_(False)
for p in model.units["cardiology"].parameters():
    p.requires_grad_(True)
print("cardiology", tune(model, list(model.units["cardiology"].parameters())))

second = list(model.add_department("oncology"))
print("oncology", tune(model, second))
