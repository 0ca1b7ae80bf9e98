# cause: cache-or-beam-state-on-wrong-device
# guilty: self.keys[layer]
import torch
import torch.nn.functional as F
from torch import nn


class KVCache:
    def __init__(self, n_layers, batch, heads, max_len, head_dim, device, dtype=torch.float32):
        shape = (batch, heads, max_len, head_dim)
        self.keys = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(n_layers)]
        self.values = [torch.zeros(shape, device=device, dtype=dtype) for _ in range(n_layers)]
        self.length = 0

    def attend(self, layer, q, k, v):
        self.keys[layer][:, :, self.length] = k.squeeze(2)
        self.values[layer][:, :, self.length] = v.squeeze(2)
        upto = self.length + 1
        w = torch.einsum("bhqd,bhkd->bhqk", q, self.keys[layer][:, :, :upto])
        return w.softmax(-1) @ self.values[layer][:, :, :upto]


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, cache, idx):
        b, _, d = x.shape
        q, k, v = (p.view(b, 1, self.heads, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, -1))
        o = cache.attend(idx, q, k, v)
        return x + self.proj(o.transpose(1, 2).reshape(b, 1, d))


class Engine:
    def __init__(self, vocab=50, dim=32, heads=4, n_layers=4, gpus=("cuda:0", "cuda:1")):
        per = n_layers // len(gpus)
        self.devices = [gpus[i // per] for i in range(n_layers)]
        self.embed = nn.Embedding(vocab, dim).to(gpus[0])
        self.layers = [Layer(dim, heads).to(d) for d in self.devices]
        self.head = nn.Linear(dim, vocab).to(gpus[-1])
        self.dim, self.heads = dim, heads

    @torch.no_grad()
    def generate(self, first, n):
        b = first.size(0)
        cache = KVCache(len(self.layers), b, self.heads, n, self.dim // self.heads, self.embed.weight.device)
        tok, out = first, []
        for _ in range(n):
            h = self.embed(tok.to(self.embed.weight.device))
            for i, (layer, dev) in enumerate(zip(self.layers, self.devices)):
                h = layer(h.to(dev), cache, i)
            cache.length += 1
            tok = F.log_softmax(self.head(h), -1).argmax(-1)
            out.append(tok.cpu())
        return torch.cat(out, 1)


torch.manual_seed(0)
print(Engine().generate(torch.zeros(2, 1, dtype=torch.long), 6))
