# cause: rope-table-on-wrong-device
# guilty: cos
import torch
import torch.nn as nn

_ROPE = {}


def rope_tables(length, dim, base=10000.0):
    key = (length, dim)
    if key not in _ROPE:
        inv = base ** (-torch.arange(0, dim, 2).float() / dim)
        ang = torch.arange(length).float()[:, None] * inv[None]
        _ROPE[key] = (ang.cos().repeat(1, 2), ang.sin().repeat(1, 2))
    return _ROPE[key]


def rotate(x):
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


class RopeAttention(nn.Module):
    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, self.hd).transpose(1, 2) for z in self.wqkv(x).chunk(3, -1))
        cos, sin = rope_tables(t, self.hd)
        q = q * cos + rotate(q) * sin
        k = k * cos + rotate(k) * sin
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(b, t, d))


def main():
    dev = torch.device("cuda:0")
    blocks = nn.ModuleList(RopeAttention() for _ in range(2)).to(dev)
    x = torch.randn(2, 30, 64, device=dev)
    for b in blocks:
        x = x + b(x)
    print(x.norm().item())


main()
