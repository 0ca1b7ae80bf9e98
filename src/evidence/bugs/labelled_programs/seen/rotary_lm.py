# cause: rope-table-on-wrong-device
# guilty: freqs
from types import SimpleNamespace
import torch
import torch.nn as nn
import torch.nn.functional as F

cfg = SimpleNamespace(vocab=80, dim=64, heads=4, depth=2, ctx=48, base=10000.0, device="cuda")


def build_freqs(head_dim, ctx, base):
    inv = 1.0 / base ** (torch.arange(0, head_dim, 2).float() / head_dim)
    return torch.polar(torch.ones(ctx, head_dim // 2), torch.outer(torch.arange(ctx).float(), inv))


def rotate(x, freqs):
    xc = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(xc * freqs).flatten(-2).type_as(x)


class Attn(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h = c.heads
        self.qkv = nn.Linear(c.dim, 3 * c.dim, bias=False)
        self.o = nn.Linear(c.dim, c.dim, bias=False)

    def forward(self, x, freqs):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, freqs), rotate(k, freqs)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, d))


class LM(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.emb = nn.Embedding(c.vocab, c.dim)
        self.attn = nn.ModuleList(Attn(c) for _ in range(c.depth))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(c.dim, 2 * c.dim), nn.SiLU(), nn.Linear(2 * c.dim, c.dim))
                                 for _ in range(c.depth))
        self.norms = nn.ModuleList(nn.RMSNorm(c.dim) for _ in range(2 * c.depth + 1))
        self.freqs = build_freqs(c.dim // c.heads, c.ctx, c.base)

    def forward(self, ids, start=0):
        x = self.emb(ids)
        f = self.freqs[start:start + ids.size(1)]
        for i, (a, m) in enumerate(zip(self.attn, self.mlp)):
            x = x + a(self.norms[2 * i](x), f)
            x = x + m(self.norms[2 * i + 1](x))
        return F.linear(self.norms[-1](x), self.emb.weight)


torch.manual_seed(1)
lm = LM(cfg).to(cfg.device)
opt = torch.optim.AdamW(lm.parameters(), lr=3e-3)
data = torch.randint(0, cfg.vocab, (16, 33))
for step in range(4):
    batch = data[torch.randperm(16)[:8]].to(cfg.device)
    logits = lm(batch[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    loss.backward()
    opt.step()
    opt.zero_grad()
    print(step, f"{loss.item():.3f}")
