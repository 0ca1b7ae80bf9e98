# cause: tensor-created-on-wrong-device
# guilty: self.FREQS (self.FREQS[None])
"""Flow-matching training of a very small DiT."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class TimestepEmbedder(nn.Module):
    """Sinusoidal embedding of t in [0, 1] followed by an MLP."""

    HALF = 16
    FREQS = torch.exp(-math.log(10000.0) * torch.arange(HALF, dtype=torch.float32) / HALF)

    def __init__(self, dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(2 * self.HALF, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        args = 1000.0 * t[:, None].float() * self.FREQS[None]
        return self.mlp(torch.cat([args.cos(), args.sin()], dim=-1))


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class DiTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(approximate="tanh"), nn.Linear(4 * dim, dim))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(dim, 6 * dim))
        nn.init.zeros_(self.ada[-1].weight)
        nn.init.zeros_(self.ada[-1].bias)

    def forward(self, x, c):
        s1, g1, a1, s2, g2, a2 = self.ada(c).chunk(6, dim=1)
        h = modulate(self.norm1(x), s1, g1)
        x = x + a1.unsqueeze(1) * self.attn(h, h, h, need_weights=False)[0]
        return x + a2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), s2, g2))


class DiT(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2, patch=4, size=16, classes=10):
        super().__init__()
        self.patch, self.grid = patch, size // patch
        self.embed = nn.Linear(patch * patch, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(1, self.grid**2, dim))
        self.time = TimestepEmbedder(dim)
        self.label = nn.Embedding(classes, dim)
        self.blocks = nn.ModuleList(DiTBlock(dim, heads) for _ in range(depth))
        self.out = nn.Linear(dim, patch * patch)

    def forward(self, x, t, y):
        b = x.size(0)
        x = F.unfold(x, self.patch, stride=self.patch).transpose(1, 2)
        x = self.embed(x) + self.pos
        c = self.time(t) + self.label(y)
        for block in self.blocks:
            x = block(x, c)
        x = self.out(x).transpose(1, 2)
        size = self.grid * self.patch
        return F.fold(x, (size, size), self.patch, stride=self.patch).view(b, 1, size, size)


def flow_matching_loss(model, x1, y):
    x0 = torch.randn_like(x1)
    t = torch.rand(x1.size(0), device=x1.device)
    tt = t[:, None, None, None]
    return F.mse_loss(model((1 - tt) * x0 + tt * x1, t, y), x1 - x0)


def main():
    device = torch.device("cuda:1")
    model = DiT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        x = torch.rand(8, 1, 16, 16, device=device) * 2 - 1
        y = torch.randint(0, 10, (8,), device=device)
        loss = flow_matching_loss(model, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
