# cause: generator-or-default-device|generator-on-other-device
# guilty: rng
"""Tabular regression; bootstrap batches, everything on one card by default."""
import torch
from torch import nn

torch.set_default_device("cuda:1")
torch.manual_seed(0)


class Table:
    def __init__(self, rows=300, cols=7):
        self.x = torch.randn(rows, cols)
        self.y = self.x @ torch.arange(1.0, cols + 1) + 0.1 * torch.randn(rows)

    def batches(self, size, rng):
        order = torch.randperm(len(self.x), generator=rng)
        for part in order.split(size):
            yield self.x[part], self.y[part]


class Regressor(nn.Module):
    def __init__(self, cols=7):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(cols, 32), nn.Mish(), nn.Linear(32, 32), nn.Mish())
        self.mean, self.logvar = nn.Linear(32, 1), nn.Linear(32, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.mean(h).squeeze(-1), self.logvar(h).squeeze(-1)


def run(epochs=2, seed=17):
    table, model = Table(), Regressor()
    opt = torch.optim.NAdam(model.parameters(), lr=5e-3)
    rng = torch.Generator(device="cpu").manual_seed(seed)
    for epoch in range(epochs):
        total = 0.0
        for x, y in table.batches(64, rng):
            mean, logvar = model(x)
            loss = nn.functional.gaussian_nll_loss(mean, y, logvar.exp())
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(epoch, total)


run()
