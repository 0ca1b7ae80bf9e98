# cause: extra-input-on-wrong-device
# guilty: mask (keep, the padding mask)
# line: 28
# repair: move the mask with the hidden states when the walk changes the card: in StageWalk.forward mask = mask.to(card) beside x = x.to(card) (only x is moved) OR scores.masked_fill(~keep.to(scores.device), ...) in MaskedAttention.forward
"""Entailment with an encoder whose layers are walked over several cards."""
import math

import torch
import torch.nn.functional as F
from torch import nn


class MaskedAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x, mask):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~mask[:, None, None, :], -1e4)
        mixed = scores.softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(x.shape))


class EncoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attend = MaskedAttention(width, heads)
        self.norm1 = nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x, mask):
        x = self.norm1(x + self.attend(x, mask))
        return self.norm2(x + self.ff(x))


class StageWalk(nn.Module):
    """Layers in order, each with the card that it was assigned."""

    def __init__(self, layers, cards):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.cards = cards
        for layer, card in zip(self.layers, cards):
            layer.to(card)

    def forward(self, x, mask):
        here = x.device
        for layer, card in zip(self.layers, self.cards):
            if torch.device(card) != here:
                x = x.to(card)
                here = torch.device(card)
            x = layer(x, mask)
        return x


class Assigner:
    def __init__(self, cards, shares):
        self.cards, self.shares = cards, shares

    def assign(self, count):
        out = []
        for card, share in zip(self.cards, self.shares):
            out += [card] * round(share * count)
        return (out + [self.cards[-1]] * count)[:count]


class Entailment(nn.Module):
    def __init__(self, vocab, width, heads, depth, assigner):
        super().__init__()
        cards = assigner.assign(depth)
        self.embed = nn.Embedding(vocab, width, padding_idx=0).to(cards[0])
        self.walk = StageWalk([EncoderLayer(width, heads) for _ in range(depth)], cards)
        self.out = nn.Linear(width, 3).to(cards[-1])

    def forward(self, ids):
        ids = ids.to(self.embed.weight.device)
        keep = ids != 0
        x = self.walk(self.embed(ids), keep)
        return self.out(x[:, 0])


def pad(rows):
    longest = max(map(len, rows))
    return torch.tensor([r + [0] * (longest - len(r)) for r in rows])


def pairs(size):
    rows = [torch.randint(1, 90, (6 + i % 5,)).tolist() for i in range(size)]
    return pad(rows), torch.tensor([len(r) % 3 for r in rows])


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Entailment(90, 32, 4, 4, Assigner(["cuda:0", "cuda:1"], [0.5, 0.5]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        ids, label = pairs(10)
        logits = model(ids)
        loss = F.cross_entropy(logits, label.to(logits.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
