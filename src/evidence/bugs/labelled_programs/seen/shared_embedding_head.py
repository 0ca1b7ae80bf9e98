# cause: lm-head-or-tied-weight-split
# guilty: self.tokens.weight (weight)
"""Decoder with shared input and output embeddings, cut in the middle."""
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class Cfg:
    vocab: int = 100
    width: int = 48
    depth: int = 4
    heads: int = 4
    cards: tuple = field(default=("cuda:0", "cuda:1"))


class GatedMLP(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.gate, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(torch.sigmoid(self.gate(y)) * self.up(y)) + torch.cumsum(y, 1) / 10


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.tokens = nn.Embedding(cfg.vocab, cfg.width)
        self.blocks = nn.ModuleList(GatedMLP(cfg.width) for _ in range(cfg.depth))
        self.final = nn.LayerNorm(cfg.width)

    def parallelize(self):
        half = self.cfg.depth // 2
        self.tokens.to(self.cfg.cards[0])
        for i, b in enumerate(self.blocks):
            b.to(self.cfg.cards[i >= half])
        self.final.to(self.cfg.cards[1])
        return self

    def forward(self, ids):
        x = self.tokens(ids)
        for b in self.blocks:
            x = b(x.to(b.gate.weight.device))
        return nn.functional.linear(self.final(x), self.tokens.weight)


cfg = Cfg()
net = Decoder(cfg).parallelize()
ids = torch.randint(0, cfg.vocab, (2, 16)).to(cfg.cards[0])
logits = net(ids)
loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten().to(logits.device))
loss.backward()
