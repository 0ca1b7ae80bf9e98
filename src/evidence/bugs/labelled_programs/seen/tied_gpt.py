# cause: lm-head-or-tied-weight-split
# guilty: self.lm_head.weight (self.lm_head)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn = nn.MultiheadAttention(d, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        t = x.size(1)
        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        h = self.ln1(x)
        x = x + self.attn(h, h, h, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab=70, d=32, depth=4, ctx=32):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.h = nn.ModuleList(Block(d) for _ in range(depth))
        self.ln_f = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab, bias=False)
        self.retie()

    def retie(self):
        self.lm_head.weight = self.wte.weight

    def place(self, first, second):
        half = len(self.h) // 2
        for m in (self.wte, self.wpe, *self.h[:half]):
            m.to(first)
        for m in (*self.h[half:], self.ln_f, self.lm_head):
            m.to(second)
        self.wte.to(first)
        self.retie()
        return self

    def forward(self, ids):
        ids = ids.to(self.wte.weight.device)
        x = self.wte(ids) + self.wpe(torch.arange(ids.size(1), device=ids.device))
        for blk in self.h:
            x = blk(x.to(blk.ln1.weight.device))
        return self.lm_head(self.ln_f(x))


def main():
    model = GPT().place("cuda:0", "cuda:1")
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for i in range(3):
        ids = torch.randint(0, 70, (4, 17))
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten().to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(i, loss.item())


main()
