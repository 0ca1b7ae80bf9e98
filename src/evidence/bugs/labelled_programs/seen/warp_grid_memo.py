# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: base (base_grid, grid)
# line: 25
# repair: make the device part of the key of base_grid: def base_grid(height, width, device), called with flow.device (and build with device=device) OR base_grid(...).to(flow.device) in warp
"""Optical-flow refinement; coarse stage on card 0, fine stage on card 1, grids are memoised."""
from functools import lru_cache

import torch
import torch.nn as nn
import torch.nn.functional as F

WHERE = {"active": "cuda:0"}


@lru_cache(maxsize=32)
def base_grid(height, width):
    ys = torch.linspace(-1, 1, height, device=WHERE["active"])
    xs = torch.linspace(-1, 1, width, device=WHERE["active"])
    y, x = torch.meshgrid(ys, xs, indexing="ij")
    return torch.stack([x, y], dim=-1).unsqueeze(0)


def warp(image, flow):
    base = base_grid(image.size(-2), image.size(-1))
    return F.grid_sample(image, base + flow.permute(0, 2, 3, 1), align_corners=True)


class FlowHead(nn.Module):
    def __init__(self, channels=3, width=12):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(2 * channels + 2, width, 3, padding=1), nn.ReLU(),
                                 nn.Conv2d(width, 2, 3, padding=1), nn.Tanh())

    def forward(self, first, second, flow):
        moved = warp(second, flow)
        return flow + 0.1 * self.net(torch.cat([first, moved, flow], dim=1))


class Refiner(nn.Module):
    def __init__(self, cards=("cuda:0", "cuda:1"), rounds=2):
        super().__init__()
        self.cards, self.rounds = cards, rounds
        self.heads = nn.ModuleList(FlowHead().to(card) for card in cards)

    def forward(self, first, second):
        n, _, h, w = first.shape
        flow = torch.zeros(n, 2, h, w)
        for card, head in zip(self.cards, self.heads):
            WHERE["active"] = card
            a, b, flow = first.to(card), second.to(card), flow.to(card)
            for _ in range(self.rounds):
                flow = head(a, b, flow)
        return flow


def photometric(first, second, flow):
    return (warp(second, flow) - first).abs().mean()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Refiner()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(3):
        first = torch.rand(2, 3, 20, 24)
        second = first.roll(2, dims=-1)
        flow = model(first, second)
        loss = photometric(first.to(flow.device), second.to(flow.device), flow)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
