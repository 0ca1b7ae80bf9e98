# cause: rope-table-on-wrong-device
# guilty: c
import torch
import torch.nn.functional as F
from torch import nn


def make_table(n, dim, device):
    f = 1.0 / 10000 ** (torch.arange(0, dim, 2, device=device) / dim)
    a = torch.outer(torch.arange(n, device=device).float(), f)
    a = torch.cat([a, a], -1)
    return a.cos(), a.sin()


def turn(x, t):
    c, s = t
    half = torch.cat([-x[..., x.size(-1) // 2 :], x[..., : x.size(-1) // 2]], -1)
    return x * c + half * s


class Layer(nn.Module):
    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, t):
        b, n, d = x.shape
        parts = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = parts
        o = F.scaled_dot_product_attention(turn(q, t), turn(k, t), v, is_causal=True)
        return x + self.out(o.transpose(1, 2).reshape(b, n, d))


where = ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]
layers = nn.ModuleList(Layer().to(w) for w in where)
x = torch.randn(2, 10, 32, device=where[0])
t = make_table(10, 8, x.device)
for layer, w in zip(layers, where):
    x = layer(x.to(w), t)
print(x.mean().item())
