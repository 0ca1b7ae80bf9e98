# cause: cache-or-beam-state-on-wrong-device
# guilty: self.k[layer]
import torch
import torch.nn as nn
import torch.nn.functional as F


class StaticCache:
    def __init__(self, layers, batch, heads, max_len, hd, dtype=torch.float32, device=None):
        shape = (batch, heads, max_len, hd)
        self.k = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]
        self.v = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]
        self.seen = 0

    def update(self, layer, k, v, where):
        self.k[layer].index_copy_(2, where, k)
        self.v[layer].index_copy_(2, where, v)
        end = self.seen + where.numel()
        return self.k[layer][:, :, :end], self.v[layer][:, :, :end]


class Layer(nn.Module):
    def __init__(self, d, h, idx):
        super().__init__()
        self.h, self.idx = h, idx
        self.proj = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)

    def forward(self, x, cache, where):
        q, k, v = (t.unflatten(-1, (self.h, -1)).transpose(1, 2) for t in self.proj(x).chunk(3, -1))
        k, v = cache.update(self.idx, k, v, where)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=q.size(2) > 1)
        return x + self.out(y.transpose(1, 2).flatten(2))


class TinyLM(nn.Module):
    def __init__(self, vocab=40, d=32, h=4, n=3):
        super().__init__()
        self.h, self.d = h, d
        self.emb = nn.Embedding(vocab, d)
        self.layers = nn.ModuleList(Layer(d, h, i) for i in range(n))
        self.head = nn.Linear(d, vocab)

    def forward(self, ids, cache):
        where = torch.arange(cache.seen, cache.seen + ids.size(1), device=ids.device)
        x = self.emb(ids)
        for l in self.layers:
            x = l(x, cache, where)
        cache.seen += ids.size(1)
        return self.head(x[:, -1])


class Engine:
    def __init__(self, model, max_len=64, **cache_opts):
        self.model = model.eval()
        self.max_len = max_len
        self.cache_opts = cache_opts

    @torch.inference_mode()
    def generate(self, ids, n):
        m = self.model
        ids = ids.to(m.head.weight.device)
        cache = StaticCache(len(m.layers), ids.size(0), m.h, self.max_len, m.d // m.h, **self.cache_opts)
        step = ids
        for _ in range(n):
            step = m(step, cache).argmax(-1, keepdim=True)
            ids = torch.cat([ids, step], 1)
        return ids


engine = Engine(TinyLM().cuda(), max_len=32, dtype=torch.float32)
print(engine.generate(torch.randint(0, 40, (2, 5)), 10).tolist())
