# cause: module-left-on-other-device
# guilty: ?
import torch
from torch import nn


class Routed(nn.Module):
    def __init__(self, d=16, n=4, k=2):
        super().__init__()
        self.k = k
        self.router = nn.Linear(d, n, bias=False)
        self.experts = [
            nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d)) for _ in range(n)
        ]

    def forward(self, x):
        flat = x.reshape(-1, x.size(-1))
        share, pick = self.router(flat).softmax(-1).topk(self.k, -1)
        out = torch.zeros_like(flat)
        for i, expert in enumerate(self.experts):
            row, slot = torch.where(pick == i)
            if row.numel() == 0:
                continue
            out.index_add_(0, row, expert(flat[row]) * share[row, slot, None])
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.ffn = Routed(d)

    def forward(self, x):
        return x + self.ffn(self.norm(x))


model = nn.Sequential(nn.Linear(6, 16), Block(), Block(), nn.Linear(16, 1)).to("cuda:1")
opt = torch.optim.Adam(model.parameters())
for _ in range(3):
    x = torch.randn(4, 9, 6, device="cuda:1")
    loss = (model(x).squeeze(-1) - x.sum(-1)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
