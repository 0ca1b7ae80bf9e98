# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: causal_mask(t) (mask)
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class ModelConfig:
    vocab: int = 30
    dim: int = 16
    heads: int = 2
    layers: int = 2


@dataclass
class RunConfig:
    device: str = "cuda:1"
    lr: float = 1e-3
    steps: int = 3
    model: ModelConfig = field(default_factory=ModelConfig)


def causal_mask(n, device="cuda:0"):
    """True where attention is allowed."""
    return torch.ones(n, n, dtype=torch.bool, device=device).tril()


class SelfAttention(nn.Module):
    def __init__(self, c: ModelConfig):
        super().__init__()
        self.heads = c.heads
        self.qkv = nn.Linear(c.dim, 3 * c.dim)
        self.out = nn.Linear(c.dim, c.dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        att = q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5
        att = torch.where(causal_mask(t), att, torch.full_like(att, float("-inf")))
        y = att.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class GPT(nn.Module):
    def __init__(self, c: ModelConfig):
        super().__init__()
        self.tok = nn.Embedding(c.vocab, c.dim)
        self.pos = nn.Embedding(64, c.dim)
        self.att = nn.ModuleList(SelfAttention(c) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.dim)
        self.head = nn.Linear(c.dim, c.vocab, bias=False)

    def forward(self, ids):
        pos = torch.arange(ids.size(1), device=ids.device)
        h = self.tok(ids) + self.pos(pos)
        for a in self.att:
            h = h + a(h)
        return self.head(self.norm(h))


def train(cfg: RunConfig):
    torch.manual_seed(0)
    device = torch.device(cfg.device)
    model = GPT(cfg.model).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    for s in range(cfg.steps):
        ids = torch.randint(0, cfg.model.vocab, (3, 9)).to(device)
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(s, loss.item())


train(RunConfig())
