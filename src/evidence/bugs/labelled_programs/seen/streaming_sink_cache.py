# cause: cache-or-beam-state-on-wrong-device
# guilty: self.keys[layer] (self.keys, self.values[layer])
# line: 24
# repair: in SinkCache.__init__ allocate the empty tensors of layer i on the device of that layer (pass a list of devices, one for each block) OR in SinkCache.update start a layer from k itself when it is empty
"""Endless decoding with attention sinks: a window of keys per layer, blocks over two cards."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SinkCache:
    def __init__(self, layers, heads, head_dim, sinks, window, device):
        empty = torch.empty(1, heads, 0, head_dim, device=device)
        self.keys = [empty.clone() for _ in range(layers)]
        self.values = [empty.clone() for _ in range(layers)]
        self.sinks, self.window = sinks, window

    def _trim(self, x):
        if x.shape[2] <= self.sinks + self.window:
            return x
        return torch.cat([x[:, :, :self.sinks], x[:, :, -self.window:]], dim=2)

    def update(self, layer, k, v):
        self.keys[layer] = self._trim(torch.cat([self.keys[layer], k], dim=2))
        self.values[layer] = self._trim(torch.cat([self.values[layer], v], dim=2))
        return self.keys[layer], self.values[layer]


class Block(nn.Module):
    def __init__(self, index, dim, heads):
        super().__init__()
        self.index, self.heads = index, heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, cache):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v = cache.update(self.index, k, v)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(1, 2).reshape(b, t, d))


class StreamLM(nn.Module):
    def __init__(self, vocab=60, dim=32, heads=4, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(i, dim, heads) for i in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)
        self.heads, self.head_dim = heads, dim // heads

    @property
    def device(self):
        return next(self.parameters()).device

    def shard(self, first, second):
        half = len(self.blocks) // 2
        self.embed.to(first)
        for block in self.blocks[:half]:
            block.to(first)
        for block in self.blocks[half:]:
            block.to(second)
        self.norm.to(second)
        self.head.to(second)
        return self

    def make_cache(self, sinks=2, window=8):
        return SinkCache(len(self.blocks), self.heads, self.head_dim, sinks, window, self.device)

    def forward(self, ids, cache):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x.to(block.qkv.weight.device), cache)
        return self.head(self.norm(x))


@torch.no_grad()
def stream(model, prompt, steps):
    cache = model.make_cache()
    for token in prompt:
        logits = model(torch.tensor([[token]], device=model.device), cache)
    out = []
    for _ in range(steps):
        token = int(logits[0, -1].argmax())
        out.append(token)
        logits = model(torch.tensor([[token]], device=model.device), cache)
    return out


if __name__ == "__main__":
    torch.manual_seed(0)
    lm = StreamLM().eval().shard("cuda:0", "cuda:1")
    print(stream(lm, [4, 8, 15, 16], 20))
