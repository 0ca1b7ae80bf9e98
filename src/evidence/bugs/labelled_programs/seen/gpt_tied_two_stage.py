# cause: lm-head-or-tied-weight-split
# guilty: h (self.wte.weight)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Stage(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(d, 4, 2 * d, batch_first=True, dropout=0.0) for _ in range(n))

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(1), device=x.device)
        for l in self.layers:
            x = l(x, src_mask=mask)
        return x


class TwoStageLM(nn.Module):
    def __init__(self, vocab=128, d=32, ctx=64):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.wpe = nn.Embedding(ctx, d)
        self.front, self.back = Stage(d, 2), Stage(d, 2)
        self.ln = nn.LayerNorm(d)

    def split(self, a, b):
        self.wte.to(a), self.wpe.to(a), self.front.to(a)
        self.back.to(b), self.ln.to(b)
        self.a, self.b = a, b
        return self

    def forward(self, ids):
        ids = ids.to(self.a)
        pos = torch.arange(ids.size(1), device=self.a)
        h = self.front(self.wte(ids) + self.wpe(pos))
        h = self.ln(self.back(h.to(self.b)))
        return F.linear(h, self.wte.weight)


lm = TwoStageLM().split("cuda:0", "cuda:1")
opt = torch.optim.AdamW(lm.parameters(), lr=1e-3)
for _ in range(3):
    ids = torch.randint(0, 128, (4, 33))
    logits = lm(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten().to(logits.device))
    loss.backward()
    opt.step()
    opt.zero_grad()
    print(loss.item())
