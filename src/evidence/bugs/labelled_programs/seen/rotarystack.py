# cause: rope-table-on-wrong-device|cache-or-beam-state-on-wrong-device
# guilty: cos (sin or _TABLES[key])
import torch
import torch.nn as nn

_TABLES = {}


def table(length, dim, device):
    key = (length, dim)
    if key not in _TABLES:
        inv = 1.0 / 100 ** (torch.arange(0, dim, 2, device=device).float() / dim)
        ang = torch.outer(torch.arange(length, device=device).float(), inv)
        _TABLES[key] = (ang.cos(), ang.sin())
    return _TABLES[key]


def rotate(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class Attn(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))

    def forward(self, x):
        cos, sin = table(x.size(1), x.size(2), x.device)
        q, k = rotate(self.q(x), cos, sin), rotate(self.k(x), cos, sin)
        return x + nn.functional.scaled_dot_product_attention(q, k, self.v(x), is_causal=True)


class Stack(nn.Module):
    def __init__(self, d=8, homes=("cuda:0", "cuda:0", "cuda:1", "cuda:1")):
        super().__init__()
        self.homes = homes
        self.layers = nn.ModuleList(Attn(d).to(h) for h in homes)

    def forward(self, x):
        for h, layer in zip(self.homes, self.layers):
            x = layer(x.to(h))
        return x


if __name__ == "__main__":
    torch.manual_seed(0)
    out = Stack()(torch.randn(2, 5, 8))
    out.mean().backward()
    print(out.device.type, out.shape)
