# cause: rope-table-on-wrong-device
# guilty: cos (sin, table, self.rope tables)
# line: 36
# repair: in RotaryTables.get rebuild or move the tables for the device that asks (cos[:length].to(device), or keep a dict keyed by device) instead of returning the tables made for the first layer OR in rotate use cos.to(x.device), sin.to(x.device)
"""Encoder for long records: stages on several cards share one builder of rotary tables."""
import torch
import torch.nn.functional as F
from torch import nn


class RotaryTables:
    """Grows on demand; all layers share one instance, so that the tables exist once."""

    def __init__(self, dim, base=10000.0):
        self.dim = dim
        self.base = base
        self.length = 0
        self.cos = self.sin = None

    def grow(self, length, device):
        inv = self.base ** (-torch.arange(0, self.dim, 2, device=device).float() / self.dim)
        angle = torch.outer(torch.arange(length, device=device).float(), inv)
        angle = torch.cat([angle, angle], dim=-1)
        self.cos, self.sin = angle.cos(), angle.sin()
        self.length = length

    def get(self, length, device):
        if length > self.length:
            self.grow(length, device)
        return self.cos[:length], self.sin[:length]


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    turned = torch.cat([-b, a], dim=-1)
    return x * cos + turned * sin


class RotaryAttention(nn.Module):
    def __init__(self, width, heads, tables):
        super().__init__()
        self.heads = heads
        self.tables = tables
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        cos, sin = self.tables.get(t, x.device)
        mixed = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v)
        return self.out(mixed.transpose(1, 2).reshape(b, t, w))


class Layer(nn.Module):
    def __init__(self, width, heads, tables):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attn = RotaryAttention(width, heads, tables)

    def forward(self, x):
        return x + self.attn(self.norm(x))


class Stage(nn.Module):
    def __init__(self, layers, device):
        super().__init__()
        self.layers = nn.ModuleList(layers).to(device)
        self.device = torch.device(device)

    def forward(self, x):
        x = x.to(self.device)
        for layer in self.layers:
            x = layer(x)
        return x


class RecordEncoder(nn.Module):
    def __init__(self, features, width, heads, per_stage, devices):
        super().__init__()
        tables = RotaryTables(width // heads)
        self.enter = nn.Linear(features, width).to(devices[0])
        self.stages = nn.ModuleList(
            Stage([Layer(width, heads, tables) for _ in range(per_stage)], d) for d in devices)
        self.leave = nn.Linear(width, 1).to(devices[-1])

    def forward(self, x):
        x = self.enter(x.to(self.enter.weight.device))
        for stage in self.stages:
            x = stage(x)
        return self.leave(x.mean(1)).squeeze(-1)


def fit(model, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        x = torch.randn(4, 20 + 4 * step, 6)
        y = x[:, :, 0].mean(1)
        out = model(x)
        loss = F.mse_loss(out, y.to(out.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    fit(RecordEncoder(6, 32, 4, per_stage=2, devices=["cuda:0", "cuda:1"]), steps=3)
