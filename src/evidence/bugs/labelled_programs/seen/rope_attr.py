# cause: rope-table-on-wrong-device
# guilty: cos
import torch
from torch import nn
from torch.nn import functional as F


class Rotary:
    def __init__(self, head_dim, max_len, theta=10000.0):
        inv = theta ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        ang = torch.outer(torch.arange(max_len).float(), inv)
        ang = torch.cat([ang, ang], dim=-1)
        self._cos, self._sin = ang.cos(), ang.sin()

    def __call__(self, q, k):
        n = q.size(-2)
        cos, sin = self._cos[:n], self._sin[:n]
        return q * cos + rot(q) * sin, k * cos + rot(k) * sin


def rot(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Block(nn.Module):
    def __init__(self, dim, heads, rotary):
        super().__init__()
        self.h = heads
        self.rotary = rotary
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        y = self.norm(x)
        B, T, D = y.shape
        q, k, v = (w(y).view(B, T, self.h, D // self.h).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        q, k = self.rotary(q, k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.wo(y.transpose(1, 2).reshape(B, T, D))


class ProteinLM(nn.Module):
    def __init__(self, dim=32, heads=4, depth=3):
        super().__init__()
        rotary = Rotary(dim // heads, 128)
        self.residues = nn.Embedding(25, dim)
        self.trunk = nn.Sequential(*[Block(dim, heads, rotary) for _ in range(depth)])
        self.head = nn.Linear(dim, 25)

    def forward(self, seq):
        return self.head(self.trunk(self.residues(seq)))


model = ProteinLM().to("cuda:1")
seq = torch.randint(0, 25, (2, 40), device="cuda:1")
loss = F.cross_entropy(model(seq)[:, :-1].flatten(0, 1), seq[:, 1:].flatten())
print(loss.item())
