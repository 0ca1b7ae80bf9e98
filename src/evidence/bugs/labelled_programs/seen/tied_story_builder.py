# cause: lm-head-or-tied-weight-split|input-not-on-embedding-device
# guilty: ids (self.embed.weight, ids.to)
# line: 46
# repair: put the head on the device of the embedding (place "head" on plan[0] and bring the hidden states back before it) OR do not tie when they lie apart: head.to(plan[-1]) moves the shared Parameter, and with it the embedding
"""Character language model, built from a config, cut over a list of cards."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    vocab: int = 64
    dim: int = 32
    depth: int = 4
    tie: bool = True
    cards: list = field(default_factory=lambda: ["cuda:0", "cuda:1"])


class GatedBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.rnn, self.gate = nn.GRU(dim, dim, batch_first=True), nn.Linear(dim, dim)

    def forward(self, x):
        h = self.norm(x)
        return x + self.rnn(h)[0] * torch.sigmoid(self.gate(h))


class CharLM(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.entry = config.cards[0]
        self.embed = nn.Embedding(config.vocab, config.dim)
        self.blocks = nn.ModuleList(GatedBlock(config.dim) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.dim)
        self.head = nn.Linear(config.dim, config.vocab, bias=False)
        if config.tie:
            self.head.weight = self.embed.weight

    def forward(self, ids):
        ids = ids.to(self.entry)
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x.to(block.gate.weight.device))
        return self.head(self.norm(x))


class Placer:
    """Gives every part of the model a card, in the order of the forward pass."""

    def __init__(self, cards):
        self.cards = cards

    def card_of(self, i, n):
        return self.cards[i * len(self.cards) // n]

    def apply(self, model):
        model.embed.to(self.cards[0])
        for i, block in enumerate(model.blocks):
            block.to(self.card_of(i, len(model.blocks)))
        model.norm.to(self.cards[-1])
        model.head.to(self.cards[-1])
        return model


def build(config):
    model = Placer(config.cards).apply(CharLM(config))
    return model, torch.optim.AdamW(model.parameters(), lr=2e-3)


def batches(text, vocab, length=16, n=3):
    data = torch.tensor([ord(c) % vocab for c in text])
    for _ in range(n):
        starts = torch.randint(0, len(data) - length - 1, (4,))
        yield torch.stack([data[s:s + length + 1] for s in starts.tolist()])


if __name__ == "__main__":
    torch.manual_seed(0)
    config = Config()
    model, optimizer = build(config)
    for chunk in batches("once upon a time there was a small card " * 8, config.vocab):
        logits = model(chunk[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten().to(logits.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
