# cause: cache-or-beam-state-on-wrong-device
# guilty: keys
import torch
import torch.nn as nn
import torch.nn.functional as F

STAGES = ("cuda:0", "cuda:1")


class StaticCache:
    def __init__(self, layers, batch, heads, length, hd, device):
        shape = (layers, batch, heads, length, hd)
        self.k = torch.zeros(shape, device=device)
        self.v = torch.zeros(shape, device=device)

    def write(self, layer, pos, k, v):
        self.k[layer, :, :, pos:pos + k.size(2)] = k
        self.v[layer, :, :, pos:pos + v.size(2)] = v
        end = pos + k.size(2)
        return self.k[layer, :, :, :end], self.v[layer, :, :, :end]


class Block(nn.Module):
    def __init__(self, index, d, heads):
        super().__init__()
        self.index, self.heads = index, heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, pos, cache):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        keys, values = cache.write(self.index, pos, k, v)
        scores = q @ keys.transpose(-1, -2) / (d // self.heads) ** 0.5
        future = torch.ones(t, keys.size(2), dtype=torch.bool, device=x.device).triu(pos + 1)
        att = scores.masked_fill(future, float("-inf")).softmax(-1)
        x = x + self.o((att @ values).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class StagedLM(nn.Module):
    def __init__(self, vocab=80, d=32, heads=4, layers=4, ctx=32):
        super().__init__()
        self.heads, self.ctx = heads, ctx
        where = [STAGES[i * len(STAGES) // layers] for i in range(layers)]
        self.tok = nn.Embedding(vocab, d).to(STAGES[0])
        self.pos = nn.Embedding(ctx, d).to(STAGES[0])
        self.blocks = nn.ModuleList(Block(i, d, heads).to(w) for i, w in enumerate(where))
        self.out = nn.Linear(d, vocab).to(STAGES[-1])

    def forward(self, ids, pos, cache):
        ids = ids.to(self.tok.weight.device)
        x = self.tok(ids) + self.pos(torch.arange(pos, pos + ids.size(1), device=ids.device))
        for blk in self.blocks:
            x = blk(x.to(blk.o.weight.device), pos, cache)
        return self.out(x)

    @torch.inference_mode()
    def generate(self, prompt, n):
        d = self.tok.embedding_dim
        cache = StaticCache(len(self.blocks), prompt.size(0), self.heads, self.ctx, d // self.heads, STAGES[0])
        ids, pos, chunk = prompt, 0, prompt
        for _ in range(n):
            nxt = self(chunk, pos, cache)[:, -1].argmax(-1, keepdim=True).to(ids.device)
            pos += chunk.size(1)
            ids, chunk = torch.cat([ids, nxt], 1), nxt
        return ids


if __name__ == "__main__":
    torch.manual_seed(0)
    lm = StagedLM().eval()
    print(lm.generate(torch.randint(0, 80, (2, 5)), 6).tolist())
