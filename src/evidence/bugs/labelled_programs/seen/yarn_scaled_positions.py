# cause: rope-table-on-wrong-device
# guilty: cos (cos, sin; the table of ScaledRotary._tables)
# line: 43
# repair: in ScaledRotary.table put the device in the key: key = (length, dim, str(device)) OR return the cached pair moved: cos.to(device), sin.to(device)
"""Long-context decoder with YaRN-scaled rotary positions; layers are spread over the cards."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class ScaledRotary:
    """Tables are expensive for long contexts, so they are built once for all layers."""

    base, factor, original = 10000.0, 4.0, 32
    _tables = {}

    @classmethod
    def frequencies(cls, dim, device):
        plain = cls.base ** (-torch.arange(0, dim, 2, device=device).float() / dim)
        turns = cls.original * plain / (2 * math.pi)
        ramp = ((turns - 1) / 31).clamp(0, 1)
        return plain / cls.factor * (1 - ramp) + plain * ramp

    @classmethod
    def table(cls, length, dim, device):
        key = (length, dim)
        if key not in cls._tables:
            angles = torch.outer(torch.arange(length, device=device).float(), cls.frequencies(dim, device))
            angles = torch.cat([angles, angles], dim=-1)
            scale = 0.1 * math.log(cls.factor) + 1
            cls._tables[key] = (angles.cos() * scale, angles.sin() * scale)
        return cls._tables[key]


def rotate(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)


def apply_rotary(q, k, cos, sin):
    q = q * cos + rotate(q) * sin
    k = k * cos + rotate(k) * sin
    return q, k


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.head_dim = heads, dim // heads
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        cos, sin = ScaledRotary.table(n, self.head_dim, x.device)
        q, k = apply_rotary(q, k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.SiLU(), nn.Linear(dim * 2, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class LongDecoder(nn.Module):
    def __init__(self, vocab=70, dim=32, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, 4) for _ in range(depth))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids.to(self.embed.weight.device))
        for layer in self.layers:
            x = layer(x.to(layer.n1.weight.device))
        return self.head(x.to(self.head.weight.device))


def spread(model, cards):
    per_card = math.ceil(len(model.layers) / len(cards))
    model.embed.to(cards[0])
    for i, layer in enumerate(model.layers):
        layer.to(cards[i // per_card])
    model.head.to(cards[-1])
    return model


if __name__ == "__main__":
    lm = spread(LongDecoder(), ["cuda:0", "cuda:1"])
    with torch.no_grad():
        print(lm(torch.randint(0, 70, (1, 96))).shape)
