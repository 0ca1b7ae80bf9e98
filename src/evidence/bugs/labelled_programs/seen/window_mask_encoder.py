# cause: tensor-created-on-wrong-device
# guilty: band
"""Local-attention encoder for log lines; trains a next-token objective on synthetic data."""
import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class LocalAttention(nn.Module):
    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        far = torch.ones(t, t).tril(-self.window) + torch.ones(t, t).triu(1)
        band = torch.zeros(t, t).masked_fill(far.bool(), float("-inf"))
        scores = scores + band
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class LogModel(nn.Module):
    def __init__(self, vocab, dim=32, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(LocalAttention(dim, 4, 8) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        h = self.emb(ids)
        for block in self.blocks:
            h = h + block(F.layer_norm(h, h.shape[-1:]))
        return self.head(h)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--device", default="cuda:1")
    ap.add_argument("--steps", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(0)
    model = LogModel(96).to(args.device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(args.steps):
        ids = torch.randint(0, 96, (4, 25)).to(args.device)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
