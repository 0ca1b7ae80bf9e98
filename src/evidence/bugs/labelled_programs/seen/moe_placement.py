# cause: device-map-incomplete-or-wrong
# guilty: tokens
"""Mixture of experts with expert parallelism inside one process."""
import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, tokens):
        return self.net(tokens)


class ExpertPlacement:
    """Which card holds which expert."""

    def __init__(self, experts, devices):
        self.devices = [torch.device(d) for d in devices]
        self.per_device = experts // len(self.devices)

    def place(self, bank):
        for i, expert in enumerate(bank):
            expert.to(self.devices[i % len(self.devices)])

    def __getitem__(self, expert):
        return self.devices[expert // self.per_device]


class MoELayer(nn.Module):
    def __init__(self, dim, experts, devices):
        super().__init__()
        self.router = nn.Linear(dim, experts).to(devices[0])
        self.bank = nn.ModuleList([Expert(dim) for _ in range(experts)])
        self.where = ExpertPlacement(experts, devices)
        self.where.place(self.bank)

    def forward(self, x):
        gates = self.router(x).softmax(-1)
        weight, choice = gates.max(-1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.bank):
            rows = (choice == e).nonzero().squeeze(-1)
            tokens = x[rows].to(self.where[e])
            result = expert(tokens)
            out.index_add_(0, rows, result.to(x.device) * weight[rows, None])
        return x + out


def main():
    torch.manual_seed(0)
    devices = ["cuda:0", "cuda:1"]
    layer = MoELayer(16, 4, devices)
    opt = torch.optim.Adam(layer.parameters(), lr=1e-3)
    for _ in range(3):
        x = torch.randn(32, 16).to(devices[0])
        loss = (layer(x) - x.roll(1, 0)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
