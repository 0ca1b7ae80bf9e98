# cause: rope-table-on-wrong-device
# guilty: cos (sin, self.phases.cos)
# line: 26
# repair: in WindowReader.__init__ build one PhaseTable per card (phases = {c: PhaseTable(cfg.dim // cfg.heads, cfg.length, c) for c in set(self.cards)}) and give each layer phases[card] OR in WindowAttention.forward move the slices: cos, sin = cos.to(q.device), sin.to(q.device) OR make PhaseTable a module with buffers, one in each layer
import torch
import torch.nn as nn
import torch.nn.functional as F


class PhaseTable:
    """Cosines and sines for all positions, shared by the layers."""

    def __init__(self, dim, length, device, base=10000.0):
        inv = base ** (-torch.arange(0, dim, 2, device=device).float() / dim)
        angle = torch.outer(torch.arange(length, device=device).float(), inv)
        angle = torch.cat([angle, angle], dim=-1)
        self.cos, self.sin = angle.cos(), angle.sin()

    def lookup(self, start, n):
        return self.cos[start:start + n], self.sin[start:start + n]


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    turned = torch.cat([-b, a], dim=-1)
    return x * cos + turned * sin


class WindowAttention(nn.Module):
    def __init__(self, dim, heads, window, phases):
        super().__init__()
        self.heads, self.window = heads, window
        self.phases = phases
        self.norm = nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def band(self, n, device):
        i = torch.arange(n, device=device)
        gap = i[:, None] - i[None]
        return (gap >= 0) & (gap < self.window)

    def forward(self, x, start=0):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        cos, sin = self.phases.lookup(start, n)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.band(n, x.device))
        return x + self.out(y.transpose(1, 2).reshape(b, n, d))


class ReaderConfig:
    def __init__(self, vocab=100, dim=32, heads=4, depth=4, window=6, length=64, n_out=2):
        self.vocab, self.dim, self.heads, self.depth = vocab, dim, heads, depth
        self.window, self.length, self.n_out = window, length, n_out


class WindowReader(nn.Module):
    """Long log files: normal or suspicious."""

    def __init__(self, cfg, cards):
        super().__init__()
        self.cards = [cards[i * len(cards) // cfg.depth] for i in range(cfg.depth)]
        self.embed = nn.Embedding(cfg.vocab, cfg.dim).to(self.cards[0])
        phases = PhaseTable(cfg.dim // cfg.heads, cfg.length, self.cards[0])
        self.layers = nn.ModuleList(
            WindowAttention(cfg.dim, cfg.heads, cfg.window, phases).to(card) for card in self.cards
        )
        self.head = nn.Linear(cfg.dim, cfg.n_out).to(self.cards[-1])

    def forward(self, ids):
        x = self.embed(ids.to(self.cards[0]))
        for layer, card in zip(self.layers, self.cards):
            x = layer(x.to(card))
        return self.head(x.mean(1))


def fit(model, steps):
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        ids = torch.randint(0, 100, (8, 40))
        y = (ids == 13).any(1).long()
        logits = model(ids)
        loss = F.cross_entropy(logits, y.to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    torch.manual_seed(0)
    fit(WindowReader(ReaderConfig(), ["cuda:0", "cuda:1"]), steps=3)
