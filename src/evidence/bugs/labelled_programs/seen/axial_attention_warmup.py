# cause: rope-table-on-wrong-device
# guilty: freqs (freqs.cos())
# after: lucidrains/rotary-embedding-torch#48
import torch
import torch.nn.functional as F
from torch import nn
def rotate_half(x):
    x1, x2 = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((-x2, x1), dim=-1).flatten(-2)
def apply_rotary_emb(freqs, t, scale=1.0):
    rot = freqs.shape[-1]
    left, right = t[..., :rot], t[..., rot:]
    left = (left * freqs.cos() * scale) + (rotate_half(left) * freqs.sin() * scale)
    return torch.cat((left, right), dim=-1)
class RotaryEmbedding(nn.Module):
    def __init__(self, dim, theta=10000, cache_if_possible=True, cache_max_seq_len=256):
        super().__init__()
        self.freqs = nn.Parameter(1.0 / theta ** (torch.arange(0, dim, 2).float() / dim), requires_grad=False)
        self.cache_if_possible, self.cache_max_seq_len = cache_if_possible, cache_max_seq_len
        self.cached_freqs = None
        self.cached_freqs_seq_len = 0
    def forward(self, t, seq_len, offset=0):
        end = offset + seq_len
        if self.cache_if_possible and self.cached_freqs is not None and end <= self.cached_freqs_seq_len:
            return self.cached_freqs[offset:end].detach()
        freqs = torch.einsum("i,j->ij", t.type(self.freqs.dtype), self.freqs).repeat_interleave(2, dim=-1)
        if self.cache_if_possible and offset == 0 and end <= self.cache_max_seq_len:
            self.cached_freqs = freqs.detach()
            self.cached_freqs_seq_len = end
        return freqs
    def rotate_queries_or_keys(self, t):
        seq_len = t.shape[-2]
        freqs = self.forward(torch.arange(seq_len, device=t.device), seq_len=seq_len)
        return apply_rotary_emb(freqs, t)

class Attention(nn.Module):
    def __init__(self, dim, heads, rotary):
        super().__init__()
        self.heads, self.rotary = heads, rotary
        self.to_qkv, self.to_out = nn.Linear(dim, dim * 3, bias=False), nn.Linear(dim, dim)
    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1))
        q, k = self.rotary.rotate_queries_or_keys(q), self.rotary.rotate_queries_or_keys(k)
        return self.to_out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

class BandSplitModel(nn.Module):
    def __init__(self, dim=32, depth=2, heads=2):
        super().__init__()
        rotary = RotaryEmbedding(dim // heads // 2)
        self.layers = nn.ModuleList([Attention(dim, heads, rotary) for _ in range(depth)])
    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x

def count_activations(model, shape):
    """One dry run before the real work, to report the size of the outputs."""
    sizes = []
    handles = [l.register_forward_hook(lambda m, i, o: sizes.append(o.numel())) for l in model.layers]
    with torch.no_grad():
        model(torch.zeros(shape))
    for h in handles:
        h.remove()
    return sum(sizes)

if __name__ == "__main__":
    model = BandSplitModel()
    print("activations:", count_activations(model, (1, 40, 32)))
    model = model.to("cuda").eval()
    with torch.no_grad():
        print(model(torch.randn(2, 24, 32, device="cuda")).norm())
