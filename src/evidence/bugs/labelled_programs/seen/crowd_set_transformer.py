# cause: extra-input-on-wrong-device
# guilty: padding
import torch
import torch.nn as nn
from typing import NamedTuple


class Batch(NamedTuple):
    points: torch.Tensor
    padding: torch.Tensor
    count: torch.Tensor


def collate(clouds):
    n = max(len(c) for c in clouds)
    points = torch.zeros(len(clouds), n, 2)
    padding = torch.ones(len(clouds), n, dtype=torch.bool)
    for i, c in enumerate(clouds):
        points[i, :len(c)] = c
        padding[i, :len(c)] = False
    count = torch.tensor([float(len(c.round().unique(dim=0))) for c in clouds])
    return Batch(points, padding, count)


class PoolingByAttention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.seed = nn.Parameter(torch.randn(1, 1, d))
        self.att = nn.MultiheadAttention(d, heads, batch_first=True)

    def forward(self, x, padding):
        q = self.seed.expand(x.size(0), -1, -1)
        return self.att(q, x, x, key_padding_mask=padding, need_weights=False)[0].squeeze(1)


class SetCounter(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(2, d), nn.ReLU(), nn.Linear(d, d))
        self.pool = PoolingByAttention(d, 4)
        self.out = nn.Linear(2 * d, 1)

    def forward(self, points, padding):
        x = self.inp(points)
        top = x.masked_fill(padding.unsqueeze(-1), -1e4).amax(1)
        return self.out(torch.cat([top, self.pool(x, padding)], -1)).squeeze(-1)


def main(device="cuda:0", steps=5):
    torch.manual_seed(0)
    net = SetCounter().to(device)
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, steps)
    scale = torch.tensor([4.0, 4.0], device=device)
    for step in range(steps):
        clouds = [torch.rand(int(torch.randint(5, 25, ())), 2) * 4 for _ in range(12)]
        batch = collate(clouds)
        points = batch.points.to(device) / scale
        count = batch.count.to(device)
        pred = net(points, batch.padding)
        loss = nn.functional.l1_loss(pred, count)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        print(step, loss.item(), sched.get_last_lr()[0])


if __name__ == "__main__":
    main()
