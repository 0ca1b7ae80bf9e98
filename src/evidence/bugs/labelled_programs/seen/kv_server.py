# cause: cache-or-beam-state-on-wrong-device
# guilty: keys (cache.k[self.idx] or cache.k)
import torch
import torch.nn as nn


class Cache:
    def __init__(self, layers, batch, heads, max_len, hd, device):
        shape = (batch, heads, max_len, hd)
        self.k = [torch.zeros(shape, device=device) for _ in range(layers)]
        self.v = [torch.zeros(shape, device=device) for _ in range(layers)]
        self.len = 0


class Layer(nn.Module):
    def __init__(self, idx, dim=32, heads=4):
        super().__init__()
        self.idx, self.heads, self.hd = idx, heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, cache):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        end = cache.len + t
        cache.k[self.idx][:, :, cache.len:end] = k
        cache.v[self.idx][:, :, cache.len:end] = v
        keys, vals = cache.k[self.idx][:, :, :end], cache.v[self.idx][:, :, :end]
        att = (q @ keys.transpose(-1, -2) / self.hd ** 0.5).softmax(-1)
        return x + self.out((att @ vals).transpose(1, 2).reshape(b, t, d))


class Server:
    def __init__(self, n_layers=4, vocab=50, dim=32):
        self.devices = ["cuda:0" if i < n_layers // 2 else "cuda:1" for i in range(n_layers)]
        self.emb = nn.Embedding(vocab, dim).to(self.devices[0])
        self.layers = [Layer(i).to(d) for i, d in enumerate(self.devices)]
        self.head = nn.Linear(dim, vocab).to(self.devices[-1])

    @torch.no_grad()
    def generate(self, ids, n):
        cache = Cache(len(self.layers), ids.size(0), 4, 64, 8, device=self.devices[0])
        step = ids
        for _ in range(n):
            x = self.emb(step.to(self.devices[0]))
            for layer, d in zip(self.layers, self.devices):
                x = layer(x.to(d), cache)
            cache.len += step.size(1)
            step = self.head(x[:, -1:]).argmax(-1)
            ids = torch.cat([ids, step.to(ids.device)], dim=1)
        return ids


print(Server().generate(torch.tensor([[1, 2, 3]]), 6).tolist())
