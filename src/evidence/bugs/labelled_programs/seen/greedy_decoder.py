# cause: cache-or-beam-state-on-wrong-device
# guilty: self.k
import torch
import torch.nn as nn
import torch.nn.functional as F
from dataclasses import dataclass


@dataclass
class Config:
    vocab: int = 97
    dim: int = 48
    heads: int = 4
    layers: int = 3
    max_len: int = 40
    device: str = "cuda:0"


class LayerCache:
    def __init__(self, batch, cfg):
        hd = cfg.dim // cfg.heads
        self.k = torch.zeros(batch, cfg.heads, cfg.max_len, hd)
        self.v = torch.zeros(batch, cfg.heads, cfg.max_len, hd)
        self.length = 0

    def append(self, k, v):
        n = k.size(2)
        span = torch.arange(self.length, self.length + n, device=k.device)
        self.k.index_copy_(2, span, k)
        self.v.index_copy_(2, span, v)
        self.length += n
        return self.k[:, :, : self.length], self.v[:, :, : self.length]


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h = cfg.heads
        self.wq = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.wk = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.wv = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.wo = nn.Linear(cfg.dim, cfg.dim, bias=False)

    def forward(self, x, cache):
        b, t, d = x.shape
        split = lambda z: z.view(b, t, self.h, d // self.h).transpose(1, 2)
        q, k, v = split(self.wq(x)), split(self.wk(x)), split(self.wv(x))
        if cache is not None:
            k, v = cache.append(k, v)
        mask = torch.ones(t, k.size(2), dtype=torch.bool, device=x.device).tril(k.size(2) - t)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).reshape(b, t, d))


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.emb = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.max_len, cfg.dim)
        self.attn = nn.ModuleList(Attention(cfg) for _ in range(cfg.layers))
        self.norm = nn.ModuleList(nn.LayerNorm(cfg.dim) for _ in range(cfg.layers))
        self.out = nn.Linear(cfg.dim, cfg.vocab)

    def forward(self, ids, start=0, caches=None):
        p = torch.arange(start, start + ids.size(1), device=ids.device)
        x = self.emb(ids) + self.pos(p)
        for i, (a, n) in enumerate(zip(self.attn, self.norm)):
            x = x + a(n(x), caches[i] if caches else None)
        return self.out(x)

    @torch.inference_mode()
    def generate(self, prompt, steps):
        caches = [LayerCache(prompt.size(0), self.cfg) for _ in range(self.cfg.layers)]
        out = prompt
        logits = self(prompt, 0, caches)
        for _ in range(steps):
            nxt = logits[:, -1].argmax(-1, keepdim=True)
            out = torch.cat([out, nxt], dim=1)
            logits = self(nxt, out.size(1) - 1, caches)
        return out


if __name__ == "__main__":
    torch.manual_seed(3)
    cfg = Config()
    model = Decoder(cfg).to(cfg.device).eval()
    prompt = torch.randint(0, cfg.vocab, (2, 6)).to(cfg.device)
    with torch.no_grad():
        print("perplexity", F.cross_entropy(model(prompt)[:, :-1].flatten(0, 1), prompt[:, 1:].flatten()).exp().item())
    print(model.generate(prompt, 12).tolist())
