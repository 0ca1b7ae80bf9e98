# cause: lm-head-or-tied-weight-split
# guilty: self.tokens.weight (self.tokens or ids)
"""Language model split over two cards, layer by layer."""
import torch
from torch import nn
from torch.nn import functional as F


class CausalBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        n = x.size(1)
        mask = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)
        y = self.ln1(x)
        y, _ = self.attn(y, y, y, attn_mask=mask, need_weights=False)
        x = x + y
        return x + self.ff(self.ln2(x))


class PipelineLM(nn.Module):
    def __init__(self, vocab=60, dim=32, heads=4, depth=4, max_len=24):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim)
        self.places = nn.Embedding(max_len, dim)
        self.blocks = nn.ModuleList(CausalBlock(dim, heads) for _ in range(depth))
        self.final = nn.LayerNorm(dim)
        self.predict = nn.Linear(dim, vocab, bias=False)
        self.predict.weight = self.tokens.weight
        self.route = []

    def spread(self, devices):
        per = (len(self.blocks) + len(devices) - 1) // len(devices)
        self.route = [devices[i // per] for i in range(len(self.blocks))]
        self.tokens.to(devices[0])
        self.places.to(devices[0])
        for place, block in zip(self.route, self.blocks):
            block.to(place)
        self.final.to(devices[-1])
        self.predict.to(devices[-1])
        return self

    def forward(self, ids):
        order = torch.arange(ids.size(1), device=ids.device)
        h = self.tokens(ids) + self.places(order)
        for place, block in zip(self.route, self.blocks):
            h = block(h.to(place))
        return self.predict(self.final(h))


if __name__ == "__main__":
    torch.manual_seed(29)
    lm = PipelineLM().spread(["cuda:0", "cuda:1"])
    opt = torch.optim.AdamW(lm.parameters(), lr=1e-3)
    for step in range(3):
        ids = torch.randint(60, (4, 17)).to("cuda:0")
        logits = lm(ids[:, :-1])
        gold = ids[:, 1:].to(logits.device)
        loss = F.cross_entropy(logits.reshape(-1, logits.size(-1)), gold.reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, f"{loss.item():.4f}")
