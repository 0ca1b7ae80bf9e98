# cause: extra-input-on-wrong-device
# guilty: temb (self.shift(temb))
# line: 28
# repair: in OnCard.forward move all tensors, also those of extras (extras = {k: v.to(self.card) ...}) OR in ConditionedBlock.forward use temb.to(x.device)
"""Runs the stages of a conditional network on several cards through a thin wrapper."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def sinusoid(t, dim):
    rate = torch.exp(torch.arange(dim // 2, device=t.device) * (-math.log(1e4) / (dim // 2)))
    angle = t.float()[:, None] * rate
    return torch.cat([angle.cos(), angle.sin()], dim=-1)


class ConditionedBlock(nn.Module):
    def __init__(self, channels, time_dim):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.shift = nn.Linear(time_dim, channels)

    def forward(self, x, temb=None, scale=1.0):
        h = self.conv(F.silu(self.norm(x)))
        h = h + self.shift(temb)[:, :, None, None]
        return x + scale * F.silu(h)


class BlockStack(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x, **extras):
        for block in self.blocks:
            x = block(x, **extras)
        return x


class OnCard(nn.Module):
    """Keeps a module on one card and brings the input to it."""

    def __init__(self, module, card):
        super().__init__()
        self.card = torch.device(card)
        self.module = module.to(self.card)

    def forward(self, x, **extras):
        return self.module(x.to(self.card, non_blocking=True), **extras)


class Network(nn.Module):
    def __init__(self, cards, channels=16, time_dim=32, per_card=2):
        super().__init__()
        self.home = torch.device(cards[0])
        self.time_dim = time_dim
        self.inlet = nn.Conv2d(3, channels, 3, padding=1).to(self.home)
        self.time = nn.Sequential(nn.Linear(time_dim, time_dim), nn.SiLU()).to(self.home)
        self.stages = nn.ModuleList(
            OnCard(BlockStack([ConditionedBlock(channels, time_dim) for _ in range(per_card)]), card)
            for card in cards
        )
        self.outlet = OnCard(nn.Conv2d(channels, 3, 3, padding=1), self.home)

    def forward(self, x, t):
        temb = self.time(sinusoid(t, self.time_dim))
        h = self.inlet(x)
        for stage in self.stages:
            h = stage(h, temb=temb, scale=0.7)
        return self.outlet(h)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Network(["cuda:0", "cuda:1"])
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(3):
        clean = torch.rand(4, 3, 16, 16, device=net.home)
        t = torch.randint(0, 1000, (4,), device=net.home)
        noise = torch.randn_like(clean)
        loss = F.mse_loss(net(clean + noise * (t / 1000)[:, None, None, None], t), noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())
