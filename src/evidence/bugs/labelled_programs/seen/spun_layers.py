# cause: rope-table-on-wrong-device
# guilty: cos
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(19)


def spin(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.qkv, self.out = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, cache):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = spin(q, *cache), spin(k, *cache)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(b, n, d))


class Model(nn.Module):
    def __init__(self, vocab=60, dim=16, heads=2, depth=4):
        super().__init__()
        self.size, self.cache = dim // heads, None
        self.tok = nn.Embedding(vocab, dim).to("cuda:0")
        self.low = nn.ModuleList(Layer(dim, heads) for _ in range(depth // 2)).to("cuda:0")
        self.high = nn.ModuleList(Layer(dim, heads) for _ in range(depth // 2)).to("cuda:1")
        self.head = nn.Linear(dim, vocab).to("cuda:1")

    def get_cache(self, n, device):
        if self.cache is None or self.cache[0].size(0) < n:
            freq = 10000 ** (-torch.arange(0, self.size, 2, device=device) / self.size)
            ang = torch.arange(n, device=device)[:, None] * freq
            ang = torch.cat([ang, ang], dim=-1)
            self.cache = (ang.cos(), ang.sin())
        return self.cache[0][:n], self.cache[1][:n]

    def forward(self, ids):
        x = self.tok(ids)
        for layer in self.low:
            x = layer(x, self.get_cache(x.size(1), x.device))
        x = x.to("cuda:1")
        for layer in self.high:
            x = layer(x, self.get_cache(x.size(1), x.device))
        return self.head(x)


with torch.no_grad():
    print(Model()(torch.arange(14, device="cuda:0").view(2, 7)).argmax(-1).tolist())
