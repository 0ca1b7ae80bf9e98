# cause: rope-table-on-wrong-device
# guilty: cos
"""Decoder with rotary attention; its blocks sit on two cards."""
import torch
from torch import nn


class RotaryTable(nn.Module):
    def __init__(self, dim, length, base=10000.0):
        super().__init__()
        freq = base ** (-torch.arange(0, dim, 2) / dim)
        angles = torch.outer(torch.arange(length).float(), freq)
        self.register_buffer("cos", angles.cos().repeat(1, 2), persistent=False)
        self.register_buffer("sin", angles.sin().repeat(1, 2), persistent=False)

    def forward(self, n, offset=0):
        return self.cos[offset:offset + n], self.sin[offset:offset + n]


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, table):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, *table), rotate(k, *table)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, vocab=70, dim=32, heads=4, depth=4, length=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rotary = RotaryTable(dim // heads, length)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.final = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, vocab))
        self.route = None

    def spread(self, devices):
        per = -(-len(self.blocks) // len(devices))
        self.route = [devices[i // per] for i in range(len(self.blocks))]
        self.embed.to(devices[0])
        self.rotary.to(devices[0])
        for block, device in zip(self.blocks, self.route):
            block.to(device)
        self.final.to(devices[-1])
        return self

    def forward(self, ids):
        x = self.embed(ids)
        table = self.rotary(ids.size(1))
        for block, device in zip(self.blocks, self.route):
            x = block(x.to(device), table)
        return self.final(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    cards = [torch.device("cuda:0"), torch.device("cuda:1")]
    model = Decoder().spread(cards)
    ids = torch.randint(0, 70, (2, 16)).to(cards[0])
    logits = model(ids)
    gold = ids.roll(-1, 1).to(logits.device)
    loss = nn.functional.cross_entropy(logits.transpose(1, 2), gold)
    loss.backward()
    print(loss.item())
