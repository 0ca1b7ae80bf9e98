# cause: cache-or-beam-state-on-wrong-device
# guilty: ck (self.k[layer] or cache.k[layer])
"""Decoder over two cards with one preallocated key/value cache."""
import torch
from torch import nn


class KVCache:
    def __init__(self, n_layer, batch, heads, max_len, hd, device, dtype=torch.float32):
        shape = (n_layer, batch, heads, max_len, hd)
        self.k = torch.zeros(shape, device=device, dtype=dtype)
        self.v = torch.zeros(shape, device=device, dtype=dtype)
        self.length = 0

    def write(self, layer, k, v):
        end = self.length + k.shape[2]
        ck, cv = self.k[layer], self.v[layer]
        ck[:, :, self.length:end] = k
        cv[:, :, self.length:end] = v
        return ck[:, :, :end], cv[:, :, :end]


class SelfAttention(nn.Module):
    def __init__(self, index, d, h):
        super().__init__()
        self.index, self.h = index, h
        self.wqkv, self.wo = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x, cache):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.h, -1).transpose(1, 2) for z in self.wqkv(x).split(d, -1))
        keys, values = cache.write(self.index, k, v)
        scores = torch.matmul(q, keys.mT) * (d // self.h) ** -0.5
        return self.wo(torch.matmul(scores.softmax(-1), values).transpose(1, 2).reshape(b, t, d))


class Model(nn.Module):
    def __init__(self, devices, d=32, h=4, per_card=2, vocab=70):
        super().__init__()
        self.devices = devices
        self.embed = nn.Embedding(vocab, d).to(devices[0])
        self.layers = nn.ModuleList()
        for c, dev in enumerate(devices):
            for j in range(per_card):
                self.layers.append(SelfAttention(c * per_card + j, d, h).to(dev))
        self.head = nn.Linear(d, vocab).to(devices[-1])

    def forward(self, ids, cache):
        x = self.embed(ids)
        for layer in self.layers:
            x = x.to(layer.wo.weight.device)
            x = x + layer(x, cache)
        cache.length += ids.shape[1]
        return self.head(x)


@torch.inference_mode()
def generate(model, ids, n):
    cache = KVCache(len(model.layers), len(ids), 4, 32, 8, model.devices[0])
    out = []
    for _ in range(n):
        ids = model(ids, cache)[:, -1:].argmax(-1).to(model.devices[0])
        out.append(ids)
    return torch.cat(out, 1)


print(generate(Model([torch.device("cuda:0"), torch.device("cuda:1")]), torch.randint(0, 70, (1, 5)).cuda(), 3))
