# cause: rope-table-on-wrong-device
# guilty: cos
"""Decoder split over the visible GPUs, position information computed once per forward."""
import torch
from torch import nn
import torch.nn.functional as F


class Rotary(nn.Module):
    def __init__(self, head_dim, theta=5e4):
        super().__init__()
        self.register_buffer("inv", theta ** (-torch.arange(0, head_dim, 2) / head_dim), persistent=False)

    def forward(self, pos):
        ang = pos[:, None].float() * self.inv
        ang = torch.cat([ang, ang], -1)
        return ang.cos(), ang.sin()


def half_turn(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


def apply_pos(q, k, pe):
    cos, sin = pe
    return q * cos + half_turn(q) * sin, k * cos + half_turn(k) * sin


class DecoderLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln = nn.LayerNorm(d)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))
        self.ff = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x, pe):
        h = self.ln(x)
        q, k, v = (self.split(w(h)) for w in (self.wq, self.wk, self.wv))
        q, k = apply_pos(q, k, pe)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.wo(y.transpose(1, 2).flatten(2))
        return x + self.ff(x)


class Decoder(nn.Module):
    def __init__(self, vocab=64, d=48, heads=4, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, d)
        self.rotary = Rotary(d // heads)
        self.layers = nn.ModuleList(DecoderLayer(d, heads) for _ in range(depth))
        self.final = nn.Linear(d, vocab)

    def shard(self, n_gpu):
        self.embed.to("cuda:0")
        self.rotary.to("cuda:0")
        size = len(self.layers) // n_gpu
        for i, layer in enumerate(self.layers):
            layer.to(f"cuda:{min(i // size, n_gpu - 1)}")
        self.final.to(f"cuda:{n_gpu - 1}")
        return self

    def forward(self, ids):
        h = self.embed(ids.to(self.embed.weight.device))
        pe = self.rotary(torch.arange(ids.size(1), device=h.device))
        for layer in self.layers:
            h = h.to(layer.ln.weight.device, non_blocking=True)
            h = layer(h, pe)
        return self.final(h)


if __name__ == "__main__":
    net = Decoder().shard(torch.cuda.device_count())
    out = net(torch.randint(0, 64, (2, 20)))
    print(out.shape, out.device, out.float().std().item())
