# cause: tensor-created-on-wrong-device|cache-or-beam-state-on-wrong-device
# guilty: buckets
# line: 44
# repair: give distance_buckets the device as an argument, so that the memo keeps one table per card OR in DistanceBias.forward use buckets.to(self.table.weight.device)
"""Text encoder over two cards whose attention takes a learned bias of the distance."""
import functools
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Grid:
    """Positions of a batch; equal when the length is, so that it can be a memo's key."""

    def __init__(self, x):
        self.length, self.device = x.shape[1], x.device

    def __hash__(self):
        return hash(self.length)

    def __eq__(self, other):
        return self.length == other.length


@functools.lru_cache(maxsize=32)
def distance_buckets(grid, buckets=16, furthest=64):
    place = torch.arange(grid.length, device=grid.device)
    gap = (place[None] - place[:, None]).abs()
    exact = buckets // 2
    scaled = torch.log(gap.float().clamp(min=1) / exact) / math.log(furthest / exact)
    far = (exact + scaled * exact).long().clamp(max=buckets - 1)
    return torch.where(gap < exact, gap, far)


class DistanceBias(nn.Module):
    def __init__(self, heads, buckets=16):
        super().__init__()
        self.table = nn.Embedding(buckets, heads)

    def forward(self, x):
        buckets = distance_buckets(Grid(x))
        return self.table(buckets).permute(2, 0, 1)


class EncoderLayer(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.bias = DistanceBias(heads)
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias(x)[None])
        return x + self.out(y.transpose(1, 2).reshape(b, n, d))


class Encoder(nn.Module):
    def __init__(self, vocab, cards, layers_per_card=2, dim=32):
        super().__init__()
        self.cards = [torch.device(c) for c in cards]
        self.embed = nn.Embedding(vocab, dim).to(self.cards[0])
        self.stages = nn.ModuleList(
            nn.Sequential(*(EncoderLayer(dim) for _ in range(layers_per_card))).to(c) for c in self.cards
        )
        self.score = nn.Linear(dim, 1).to(self.cards[-1])

    def forward(self, ids):
        x = self.embed(ids.to(self.cards[0]))
        for card, stage in zip(self.cards, self.stages):
            x = stage(x.to(card))
        return self.score(x.mean(1))[:, 0]


if __name__ == "__main__":
    torch.manual_seed(0)
    encoder = Encoder(200, ["cuda:0", "cuda:1"])
    optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    for length in (12, 20, 12):
        ids = torch.randint(0, 200, (4, length))
        score = encoder(ids)
        wanted = (ids[:, 0] % 2).float().to(score.device)
        loss = F.binary_cross_entropy_with_logits(score, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(length, loss.item())
