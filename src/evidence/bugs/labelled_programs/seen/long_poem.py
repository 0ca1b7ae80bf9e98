# cause: rope-table-on-wrong-device
# guilty: turn
"""A poem model whose lower half runs on the first card and upper half on the second."""
import torch
import torch.nn as nn
import torch.nn.functional as F

_turns = {}


def turns_for(x, base=10000.0):
    length, dim = x.shape[-2], x.shape[-1]
    key = (length, dim)
    if key not in _turns:
        freq = base ** (-torch.arange(0, dim, 2, device=x.device).float() / dim)
        angle = torch.outer(torch.arange(length, device=x.device).float(), freq)
        _turns[key] = torch.polar(torch.ones_like(angle), angle)
    return _turns[key]


def rotate(x):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())
    turn = turns_for(x)
    return torch.view_as_real(pairs * turn).flatten(-2).type_as(x)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.qkv(self.ln1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
        return x + self.mlp(self.ln2(x))


class Poet(nn.Module):
    def __init__(self, vocab=50, width=32, depth=4, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.cards = cards
        half = depth // 2
        self.embed = nn.Embedding(vocab, width).to(cards[0])
        self.lower = nn.Sequential(*[Block(width, 4) for _ in range(half)]).to(cards[0])
        self.upper = nn.Sequential(*[Block(width, 4) for _ in range(depth - half)]).to(cards[1])
        self.head = nn.Linear(width, vocab).to(cards[1])

    def forward(self, ids):
        x = self.lower(self.embed(ids.to(self.cards[0])))
        return self.head(self.upper(x.to(self.cards[1])))


torch.manual_seed(6)
poet = Poet()
opt = torch.optim.AdamW(poet.parameters(), lr=1e-3)
for step in range(3):
    ids = torch.randint(50, (4, 17))
    logits = poet(ids[:, :-1])
    goal = ids[:, 1:].to(logits.device)
    loss = F.cross_entropy(logits.flatten(0, 1), goal.flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, round(loss.item(), 4))
