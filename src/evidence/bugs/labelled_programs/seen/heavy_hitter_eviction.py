# cause: cache-or-beam-state-on-wrong-device
# guilty: seen (self.weight_seen[index])
# line: 30
# repair: in HeavyHitterCache.start make the sums of each layer on that layer's card (pass the list of devices) OR in append use seen = self.weight_seen[index].to(weights.device) and store it back
"""Decoding with a bounded cache that drops the tokens with the least attention so far."""
import torch
import torch.nn as nn


class HeavyHitterCache:
    def __init__(self, limit, recent=4):
        self.limit, self.recent = limit, recent
        self.keys, self.values, self.weight_seen = [], [], []

    def start(self, layers, batch, device):
        self.keys = [None] * layers
        self.values = [None] * layers
        self.weight_seen = [torch.zeros(batch, 0, device=device) for _ in range(layers)]

    def extend(self, index, k, v):
        if self.keys[index] is not None:
            k = torch.cat([self.keys[index], k], dim=1)
            v = torch.cat([self.values[index], v], dim=1)
        self.keys[index], self.values[index] = k, v
        return k, v

    def account(self, index, weights):
        fresh = weights.shape[-1] - self.weight_seen[index].shape[1]
        seen = nn.functional.pad(self.weight_seen[index], (0, fresh))
        self.weight_seen[index] = seen + weights.sum(1)
        if weights.shape[-1] > self.limit:
            self._evict(index)

    def _evict(self, index):
        seen = self.weight_seen[index].clone()
        seen[:, -self.recent:] = float("inf")
        keep = seen.topk(self.limit, dim=1).indices.sort(dim=1).values
        wide = keep[:, :, None].expand(-1, -1, self.keys[index].shape[-1])
        self.keys[index] = self.keys[index].gather(1, wide)
        self.values[index] = self.values[index].gather(1, wide)
        self.weight_seen[index] = self.weight_seen[index].gather(1, keep)


class CachedLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, cache, index):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        k, v = cache.extend(index, k, v)
        late = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool, device=x.device)
        late = late.triu(1 + k.shape[1] - q.shape[1])
        score = (q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).masked_fill(late, float("-inf"))
        weights = score.softmax(-1)
        cache.account(index, weights)
        return x + self.out(weights @ v)


class Decoder(nn.Module):
    def __init__(self, vocab=50, dim=32, depth=4, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim).to(cards[0])
        self.layers = nn.ModuleList(CachedLayer(dim).to(cards[2 * i // depth]) for i in range(depth))
        self.head = nn.Linear(dim, vocab).to(cards[-1])

    def forward(self, ids, cache):
        x = self.embed(ids.to(self.embed.weight.device))
        for index, layer in enumerate(self.layers):
            x = layer(x.to(layer.out.weight.device), cache, index)
        return self.head(x[:, -1])

    @torch.no_grad()
    def generate(self, prompt, new_tokens=8, limit=10):
        cache = HeavyHitterCache(limit)
        cache.start(len(self.layers), len(prompt), self.embed.weight.device)
        tokens, step = [], prompt
        for _ in range(new_tokens):
            step = self(step, cache).argmax(-1, keepdim=True)
            tokens.append(step)
        return torch.cat(tokens, dim=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    decoder = Decoder().eval()
    print(decoder.generate(torch.randint(0, 50, (2, 7))).tolist())
