# cause: lm-head-or-tied-weight-split
# guilty: self.wte.weight
# 共享词嵌入和输出层权重的小语言模型，按层切到两张卡上
import torch
from torch import nn
from torch.nn import functional as F


class MLPBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.mix = nn.Conv1d(d, d, 3, padding=2, groups=d)
        self.ff = nn.Linear(d, d)

    def forward(self, x):
        y = self.ln(x).transpose(1, 2)
        y = self.mix(y)[..., : x.size(1)].transpose(1, 2)
        return x + self.ff(F.gelu(y))


class TiedLM(nn.Module):
    def __init__(self, vocab=40, d=16, n=4):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.blocks = nn.ModuleList(MLPBlock(d) for _ in range(n))
        self.ln_f = nn.LayerNorm(d)

    def parallelize(self, n_first):
        self.n_first = n_first
        self.wte.to("cuda:0")
        for i, block in enumerate(self.blocks):
            block.to("cuda:0" if i < n_first else "cuda:1")
        self.ln_f.to("cuda:1")
        return self

    def forward(self, ids):
        h = self.wte(ids)
        for i, block in enumerate(self.blocks):
            if i == self.n_first:
                h = h.to("cuda:1")
            h = block(h)
        h = self.ln_f(h)
        return F.linear(h, self.wte.weight)


def main():
    torch.manual_seed(0)
    model = TiedLM().parallelize(n_first=2)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    corpus = torch.randint(0, 40, (200,))
    for step in range(3):
        start = torch.randint(0, 180, (4,)).tolist()
        chunk = torch.stack([corpus[s:s + 12] for s in start])
        ids = chunk[:, :-1].to("cuda:0")
        gold = chunk[:, 1:].to("cuda:1")
        logits = model(ids)
        loss = F.cross_entropy(logits.reshape(-1, 40), gold.reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"step {step} loss {loss.item():.3f}")


main()
