# cause: extra-input-on-wrong-device|block-split-across-devices|tensor-created-on-wrong-device
# guilty: mask (ctx.mask or attn_mask or mask)
"""Stages of a decoder on their own cards; the runner carries activations from one to the next."""
from types import SimpleNamespace

import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        s = (q @ k.transpose(-2, -1)) * (d // self.h) ** -0.5
        s = s.masked_fill(mask, torch.finfo(s.dtype).min)
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Stage(nn.Module):
    def __init__(self, d, h, n, device):
        super().__init__()
        self.device = torch.device(device)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"ln": nn.LayerNorm(d), "attn": Attn(d, h)}) for _ in range(n)
        )
        self.to(self.device)

    def forward(self, x, ctx):
        for blk in self.blocks:
            x = x + blk["attn"](blk["ln"](x), ctx.mask)
        return x


class PipelineRunner:
    def __init__(self, stages, embed, head):
        self.stages, self.embed, self.head = stages, embed, head

    def context(self, ids, pad=0):
        t = ids.shape[1]
        causal = torch.ones(t, t, dtype=torch.bool, device=ids.device).triu(1)
        return SimpleNamespace(mask=causal[None, None] | (ids == pad)[:, None, None, :])

    def __call__(self, ids):
        ctx = self.context(ids)
        x = self.embed(ids)
        for stage in self.stages:
            x = x.to(stage.device)
            x = stage(x, ctx)
        return self.head(x)


runner = PipelineRunner(
    [Stage(32, 4, 2, "cuda:0"), Stage(32, 4, 2, "cuda:1")],
    nn.Embedding(90, 32).to("cuda:0"),
    nn.Linear(32, 90).to("cuda:1"),
)
for _ in range(2):
    logits = runner(torch.randint(1, 90, (2, 12), device="cuda:0"))
print(logits.shape)
