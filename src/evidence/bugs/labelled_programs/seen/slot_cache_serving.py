# cause: cache-or-beam-state-on-wrong-device
# guilty: keys
"""Continuous batching with a preallocated slot cache, layers spread over two cards."""
import torch
from torch import nn


class SlotCache:
    def __init__(self, layers, slots, heads, length, dim, device):
        shape = (layers, slots, heads, length, dim)
        self.k = torch.zeros(shape, device=device)
        self.v = torch.zeros(shape, device=device)
        self.filled = [0] * slots

    def append(self, layer, slot, k, v):
        at = self.filled[slot]
        self.k[layer, slot, :, at] = k
        self.v[layer, slot, :, at] = v
        return self.k[layer, slot, :, : at + 1], self.v[layer, slot, :, : at + 1]


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, index, slot, cache):
        q, k, v = self.qkv(self.norm(x)).view(3, self.heads, -1)
        keys, values = cache.append(index, slot, k, v)
        scores = torch.einsum("hd,hld->hl", q, keys) / q.size(-1) ** 0.5
        mixed = torch.einsum("hl,hld->hd", scores.softmax(-1), values)
        return x + self.out(mixed.flatten())


class Engine:
    def __init__(self, vocab=50, dim=32, heads=4, depth=4, slots=2):
        self.devices = [torch.device("cuda:0" if i < depth // 2 else "cuda:1") for i in range(depth)]
        self.embed = nn.Embedding(vocab, dim).to(self.devices[0])
        self.layers = [Layer(dim, heads).to(d) for d in self.devices]
        self.head = nn.Linear(dim, vocab).to(self.devices[-1])
        self.cache = SlotCache(depth, slots, heads, 32, dim // heads, self.devices[0])

    @torch.no_grad()
    def step(self, slot, token):
        x = self.embed(torch.tensor(token, device=self.devices[0]))
        for i, layer in enumerate(self.layers):
            x = layer(x.to(self.devices[i]), i, slot, self.cache)
        self.cache.filled[slot] += 1
        return int(self.head(x).argmax())


def main():
    torch.manual_seed(0)
    engine = Engine()
    requests = {0: [3], 1: [7]}
    for _ in range(4):
        for slot, tokens in requests.items():
            tokens.append(engine.step(slot, tokens[-1]))
    print(requests)


if __name__ == "__main__":
    main()
