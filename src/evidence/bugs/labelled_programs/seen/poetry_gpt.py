# cause: lm-head-or-tied-weight-split
# guilty: self.wte.weight
import torch
import torch.nn as nn
import torch.nn.functional as F

CORPUS = ("shall i compare thee to a summers day "
          "thou art more lovely and more temperate ") * 20
chars = sorted(set(CORPUS))
data = torch.tensor([chars.index(c) for c in CORPUS])


class Layer(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.ln = nn.LayerNorm(n)
        self.attn = nn.MultiheadAttention(n, 4, batch_first=True)
        self.ff = nn.Sequential(nn.LayerNorm(n), nn.Linear(n, 4 * n), nn.GELU(), nn.Linear(4 * n, n))

    def forward(self, x, mask):
        y = self.ln(x)
        x = x + self.attn(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.ff(x)


class PoetryGPT(nn.Module):
    def __init__(self, vocab, n=32, ctx=48, layers=4):
        super().__init__()
        self.wte = nn.Embedding(vocab, n)
        self.wpe = nn.Embedding(ctx, n)
        self.layers = nn.ModuleList(Layer(n) for _ in range(layers))
        self.ln_f = nn.LayerNorm(n)

    def parallelize(self, first, second):
        half = len(self.layers) // 2
        self.wte.to(first)
        self.wpe.to(first)
        for i, layer in enumerate(self.layers):
            layer.to(first if i < half else second)
        self.ln_f.to(second)
        return self

    def forward(self, idx):
        t = idx.size(1)
        x = self.wte(idx) + self.wpe(torch.arange(t, device=idx.device))
        for layer in self.layers:
            dev = layer.ln.weight.device
            x = x.to(dev)
            mask = torch.full((t, t), float("-inf"), device=dev).triu(1)
            x = layer(x, mask)
        x = self.ln_f(x)
        return F.linear(x, self.wte.weight)


torch.manual_seed(1)
model = PoetryGPT(len(chars)).parallelize("cuda:0", "cuda:1")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for it in range(6):
    starts = torch.randint(0, len(data) - 33, (8,))
    xb = torch.stack([data[s:s + 32] for s in starts]).to("cuda:0")
    yb = torch.stack([data[s + 1:s + 33] for s in starts]).to("cuda:1")
    logits = model(xb)
    loss = F.cross_entropy(logits.view(-1, len(chars)), yb.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(it, loss.item())
