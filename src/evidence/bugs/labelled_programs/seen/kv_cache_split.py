# cause: cache-or-beam-state-on-wrong-device
# guilty: keys.transpose(-1, -2) (keys)
import torch
import torch.nn as nn


class StaticCache:
    """One preallocated pair per layer, filled position by position."""

    def __init__(self, layers, batch, length, dim, device):
        self.k = [torch.zeros(batch, length, dim, device=device) for _ in range(layers)]
        self.v = [torch.zeros(batch, length, dim, device=device) for _ in range(layers)]

    def write(self, layer, pos, k, v):
        self.k[layer][:, pos] = k
        self.v[layer][:, pos] = v
        return self.k[layer][:, : pos + 1], self.v[layer][:, : pos + 1]


class Block(nn.Module):
    def __init__(self, dim, index):
        super().__init__()
        self.index = index
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, cache, pos):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        keys, values = cache.write(self.index, pos, k, v)
        weights = torch.softmax(q.unsqueeze(1) @ keys.transpose(-1, -2) / q.size(-1) ** 0.5, dim=-1)
        return x + self.proj((weights @ values).squeeze(1))


class TinyLM(nn.Module):
    def __init__(self, vocab=32, dim=16, n=4):
        super().__init__()
        self.wte = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(Block(dim, i) for i in range(n))
        self.head = nn.Linear(dim, vocab)

    def spread(self):
        half = len(self.blocks) // 2
        self.wte.to("cuda:0")
        for i, b in enumerate(self.blocks):
            b.to("cuda:0" if i < half else "cuda:1")
        self.head.to("cuda:1")
        return self

    @torch.no_grad()
    def generate(self, ids, n_new):
        cache = StaticCache(len(self.blocks), ids.size(0), ids.size(1) + n_new, 16, ids.device)
        out = [ids[:, i] for i in range(ids.size(1))]
        for pos in range(ids.size(1) + n_new - 1):
            x = self.wte(out[pos].to("cuda:0"))
            for b in self.blocks:
                x = b(x.to(b.proj.weight.device), cache, pos)
            if pos >= ids.size(1) - 1:
                out.append(self.head(x).argmax(-1).to(ids.device))
        return torch.stack(out, dim=1)


if __name__ == "__main__":
    torch.manual_seed(7)
    lm = TinyLM().spread().eval()
    prompt = torch.randint(0, 32, (2, 3), device="cuda:0")
    print(lm.generate(prompt, 4).tolist())
