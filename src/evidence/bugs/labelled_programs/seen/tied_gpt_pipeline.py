# cause: lm-head-or-tied-weight-split
# guilty: self.wte.weight
import torch
from torch import nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        mask = torch.ones(x.size(1), x.size(1), dtype=torch.bool, device=x.device).triu(1)
        y = self.ln1(x)
        x = x + self.attn(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.ff(self.ln2(x))


class TinyGPT(nn.Module):
    """Weights of input and output layer are shared, as in GPT-2."""

    def __init__(self, vocab=70, d=32, n=4, ctx=32):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.wpe = nn.Embedding(ctx, d)
        self.h = nn.ModuleList(Block(d) for _ in range(n))
        self.ln_f = nn.LayerNorm(d)

    def spread(self, first, second):
        self.first, self.second = first, second
        self.wte.to(first), self.wpe.to(first)
        half = len(self.h) // 2
        for i, b in enumerate(self.h):
            b.to(first if i < half else second)
        self.ln_f.to(second)
        return self

    def forward(self, ids):
        pos = torch.arange(ids.size(1), device=ids.device)
        x = self.wte(ids) + self.wpe(pos)
        for i, b in enumerate(self.h):
            if i == len(self.h) // 2:
                x = x.to(self.second)
            x = b(x)
        return F.linear(self.ln_f(x), self.wte.weight)


gpt = TinyGPT().spread("cuda:0", "cuda:1")
text = torch.randint(0, 70, (2, 17))
logits = gpt(text[:, :-1].to("cuda:0"))
print(F.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten().to(logits.device)))
