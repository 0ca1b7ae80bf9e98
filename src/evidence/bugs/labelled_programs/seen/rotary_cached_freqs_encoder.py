# cause: rope-table-on-wrong-device|tensor-created-on-wrong-device
# guilty: freqs (self.cached_freqs)
# after: lucidrains/rotary-embedding-torch#48
import torch
import torch.nn as nn
import torch.nn.functional as F

def rotate_half(x):
    x1, x2 = x[..., ::2], x[..., 1::2]
    return torch.stack((-x2, x1), dim=-1).flatten(-2)

def apply_rotary_emb(freqs, t):
    return t * freqs.cos() + rotate_half(t) * freqs.sin()

class RotaryEmbedding(nn.Module):
    def __init__(self, dim, theta=10000.0, cache_if_possible=True):
        super().__init__()
        self.register_buffer("freqs", theta ** (-torch.arange(0, dim, 2).float() / dim))
        self.cache_if_possible = cache_if_possible
        self.cached_freqs = {}
    def forward(self, seq_len):
        if self.cache_if_possible and seq_len in self.cached_freqs:
            return self.cached_freqs[seq_len]
        pos = torch.arange(seq_len, device=self.freqs.device, dtype=self.freqs.dtype)
        out = torch.einsum("i,j->ij", pos, self.freqs).repeat_interleave(2, dim=-1)
        if self.cache_if_possible:
            self.cached_freqs[seq_len] = out.detach()
        return out
    def rotate_queries_or_keys(self, t):
        freqs = self.forward(t.shape[-2])
        return apply_rotary_emb(freqs, t)

class Attention(nn.Module):
    def __init__(self, dim, heads, rotary):
        super().__init__()
        self.heads, self.rotary = heads, rotary
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim)
    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        q = self.rotary.rotate_queries_or_keys(q)
        k = self.rotary.rotate_queries_or_keys(k)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))

class BandSplitEncoder(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2):
        super().__init__()
        rotary = RotaryEmbedding(dim // heads)
        self.layers = nn.ModuleList([Attention(dim, heads, rotary) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
    def forward(self, x):
        for layer in self.layers:
            x = x + layer(self.norm(x))
        return x

def count_activations(model, shape):
    sizes = []
    hooks = [m.register_forward_hook(lambda m, i, o: sizes.append(o.numel())) for m in model.layers]
    with torch.no_grad():
        model(torch.zeros(shape))
    for h in hooks:
        h.remove()
    return sum(sizes)

if __name__ == "__main__":
    separator = BandSplitEncoder()
    print("activations", count_activations(separator, (1, 24, 32)))
    separator.to("cuda")
    chunks = torch.randn(6, 24, 32).to("cuda").split(2)
    print(sum(separator(c).mean().item() for c in chunks))
