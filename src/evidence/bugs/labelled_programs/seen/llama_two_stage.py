# cause: rope-table-on-wrong-device
# guilty: freqs
import torch
from torch import nn
import torch.nn.functional as F
from dataclasses import dataclass


@dataclass
class Args:
    vocab: int = 64
    dim: int = 32
    heads: int = 4
    layers: int = 4
    max_len: int = 32


def precompute(dim, end, theta=10000.0):
    inv = 1.0 / theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim)
    ang = torch.outer(torch.arange(end).float(), inv)
    return torch.polar(torch.ones_like(ang), ang)


def apply_rotary(x, freqs):
    xc = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(xc * freqs[None, :, None]).flatten(3).type_as(x)


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.h, self.hd = a.heads, a.dim // a.heads
        self.qkv = nn.Linear(a.dim, 3 * a.dim, bias=False)
        self.o = nn.Linear(a.dim, a.dim, bias=False)
        self.w1, self.w2 = nn.Linear(a.dim, 64, bias=False), nn.Linear(64, a.dim, bias=False)
        self.n1, self.n2 = RMSNorm(a.dim), RMSNorm(a.dim)

    def forward(self, x, freqs):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.h, self.hd) for z in self.qkv(self.n1(x)).chunk(3, -1))
        q, k = apply_rotary(q, freqs), apply_rotary(k, freqs)
        y = F.scaled_dot_product_attention(*(z.transpose(1, 2) for z in (q, k, v)), is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, d))
        return x + self.w2(F.silu(self.w1(self.n2(x))))


class Llama(nn.Module):
    def __init__(self, a, devices):
        super().__init__()
        per = a.layers // len(devices)
        self.place = [torch.device(devices[i // per]) for i in range(a.layers)]
        self.tok = nn.Embedding(a.vocab, a.dim).to(self.place[0])
        self.layers = nn.ModuleList(Block(a).to(d) for d in self.place)
        self.norm = RMSNorm(a.dim).to(self.place[-1])
        self.out = nn.Linear(a.dim, a.vocab, bias=False).to(self.place[-1])
        self.freqs = precompute(a.dim // a.heads, a.max_len).to(self.place[0])

    def forward(self, ids):
        x = self.tok(ids.to(self.place[0]))
        freqs = self.freqs[: ids.size(1)]
        for layer, dev in zip(self.layers, self.place):
            x = layer(x.to(dev), freqs)
        return self.out(self.norm(x))


if __name__ == "__main__":
    torch.manual_seed(0)
    args = Args()
    model = Llama(args, ["cuda:0", "cuda:1"])
    ids = torch.randint(0, args.vocab, (2, 10))
    for _ in range(4):
        with torch.no_grad():
            nxt = model(ids)[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, nxt.cpu()], dim=1)
    print(ids.tolist())
