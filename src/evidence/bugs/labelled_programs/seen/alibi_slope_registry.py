# cause: tensor-created-on-wrong-device|hard-coded-device
# guilty: bias (self.bias_source(...), the ALiBi bias)
# line: 45
# repair: in SlopeTable.bias build or move the bias to the caller's device (pass scores.device and use self.slopes.to(device) and torch.arange(..., device=device)) OR in AlibiAttention.forward add bias.to(scores.device) OR key the table by (heads, device) in slope_table
"""A small decoder with linear position biases, spread over two cards by a map."""
import math

import torch
from torch import nn
from accelerate import dispatch_model

SLOPES = {}


class SlopeTable:
    def __init__(self, heads, device):
        start = 2 ** (-8 / heads)
        self.slopes = torch.tensor([start ** (i + 1) for i in range(heads)], device=device)

    def bias(self, length):
        where = torch.arange(length, device=self.slopes.device)
        distance = (where[None, :] - where[:, None]).clamp(max=0).float()
        return self.slopes[:, None, None] * distance


def slope_table(heads, device):
    if heads not in SLOPES:
        SLOPES[heads] = SlopeTable(heads, device)
    return SLOPES[heads]


class AlibiAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.dim = width // heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.dim).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.dim)
        bias = slope_table(self.heads, x.device).bias(t)
        scores = scores + bias
        causal = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(causal, float("-inf"))
        mixed = scores.softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = AlibiAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.ff(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, vocab=97, width=32, heads=4, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def spread(model, cards):
    depth = len(model.blocks)
    plan = {"embed": 0, "norm": cards - 1, "head": cards - 1}
    for i in range(depth):
        plan[f"blocks.{i}"] = i * cards // depth
    return dispatch_model(model, device_map=plan, main_device=0)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = spread(Decoder().eval(), cards=2)
    ids = torch.randint(0, 97, (2, 12), device="cuda:0")
    with torch.no_grad():
        for _ in range(5):
            logits = model(ids)
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], dim=1)
    print(ids.tolist())
