# cause: lm-head-or-tied-weight-split|module-left-on-other-device
# guilty: self.norm (self.norm.weight, norm)
# line: 20
# repair: in build give each stage its own norm (a second nn.LayerNorm, or copy.deepcopy(norm) for the second stage) OR keep both stages that share the norm on one card
"""Albert-like encoder where the pre-norm is shared to save parameters; two stages on two GPUs."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SharedNormBlock(nn.Module):
    def __init__(self, norm, dim=32, heads=4):
        super().__init__()
        self.norm = norm
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.fc1 = nn.Linear(dim, dim * 4)
        self.fc2 = nn.Linear(dim * 4, dim)

    def forward(self, x, pad):
        y = self.norm(x)
        x = x + self.attn(y, y, y, key_padding_mask=pad, need_weights=False)[0]
        return x + self.fc2(F.gelu(self.fc1(x)))


class Stage(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x, pad):
        for block in self.blocks:
            x = block(x, pad)
        return x


class SharedNormEncoder(nn.Module):
    def __init__(self, embed, first, second, head):
        super().__init__()
        self.embed, self.first, self.second, self.head = embed, first, second, head

    def forward(self, ids):
        pad = ids == 0
        x = self.first(self.embed(ids), pad)
        x = self.second(x.to("cuda:1"), pad.to("cuda:1"))
        return self.head(x[:, 0])


def build(vocab=200, dim=32, depth=4, classes=5):
    norm = nn.LayerNorm(dim)
    blocks = [SharedNormBlock(norm, dim) for _ in range(depth)]
    first = Stage(blocks[: depth // 2]).to("cuda:0")
    second = Stage(blocks[depth // 2:]).to("cuda:1")
    embed = nn.Embedding(vocab, dim, padding_idx=0).to("cuda:0")
    head = nn.Linear(dim, classes).to("cuda:1")
    return SharedNormEncoder(embed, first, second, head)


def batches(n, size=6, length=14):
    g = torch.Generator().manual_seed(11)
    for _ in range(n):
        ids = torch.randint(1, 200, (size, length), generator=g)
        lengths = torch.randint(4, length + 1, (size,), generator=g)
        ids[torch.arange(length)[None] >= lengths[:, None]] = 0
        yield ids, torch.randint(0, 5, (size,), generator=g)


def main():
    model = build()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, (ids, y) in enumerate(batches(4)):
        logits = model(ids.to("cuda:0"))
        loss = F.cross_entropy(logits, y.to("cuda:1"))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))


main()
