# cause: rope-table-on-wrong-device|block-split-across-devices
# guilty: cos (sin, cos[None, None])
# line: 25
# repair: in GlyphDecoder.forward move the table with the hidden state: cos, sin = cos.to(stage.device), sin.to(stage.device) before stage(h, cos, sin) OR in rotate use cos.to(x.device), sin.to(x.device)
"""Glyph language model cut into two stages; one rotary table is computed per call."""
import torch
from torch import nn
import torch.nn.functional as F


class Phase(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv", base ** (-torch.arange(0, dim, 2).float() / dim))

    def forward(self, length):
        t = torch.arange(length, device=self.inv.device).float()
        angle = torch.outer(t, self.inv)
        angle = torch.cat([angle, angle], dim=-1)
        return angle.cos(), angle.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, h, cos, sin):
        b, t, d = h.shape
        q, k, v = self.qkv(self.norm(h)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True)
        return h + self.out(y.transpose(1, 2).reshape(b, t, d))


class Stage(nn.Module):
    def __init__(self, blocks, device):
        super().__init__()
        self.device = torch.device(device)
        self.blocks = nn.ModuleList(blocks).to(self.device)

    def forward(self, h, cos, sin):
        for block in self.blocks:
            h = block(h, cos, sin)
        return h


class GlyphDecoder(nn.Module):
    def __init__(self, vocab=90, dim=32, heads=4, per_stage=2, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim).to(cards[0])
        self.phase = Phase(dim // heads).to(cards[0])
        self.stages = nn.ModuleList(
            [Stage([Block(dim, heads) for _ in range(per_stage)], c) for c in cards])
        self.head = nn.Linear(dim, vocab).to(cards[-1])

    def forward(self, ids):
        h = self.embed(ids)
        cos, sin = self.phase(ids.shape[1])
        for stage in self.stages:
            h = h.to(stage.device)
            h = stage(h, cos, sin)
        return self.head(h)


if __name__ == "__main__":
    net = GlyphDecoder()
    opt = torch.optim.AdamW(net.parameters(), lr=3e-4)
    for step in range(3):
        ids = torch.randint(0, 90, (4, 12), device="cuda:0")
        logits = net(ids)[:, :-1].flatten(0, 1)
        loss = F.cross_entropy(logits, ids[:, 1:].flatten().to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 3))
