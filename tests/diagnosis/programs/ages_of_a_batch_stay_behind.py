# cause: extra-input-on-wrong-device
# guilty: decay (ages or batch["ages"])
"""Survival curves: the loop moves what the model is known to read; the ages are turned into factors inside."""
import torch
from torch import nn


class Curves(nn.Module):
    def __init__(self):
        super().__init__()
        self.rates = nn.Linear(5, 3)

    def forward(self, measures, ages):
        decay = torch.exp(-ages / ages.max())
        rates = self.rates(measures)
        return rates * decay[:, None]


def loader():
    for _ in range(2):
        yield {"measures": torch.randn(4, 5), "ages": torch.rand(4) * 90}


gpu = torch.device("cuda:1")
curves = Curves().to(gpu)
optimizer = torch.optim.SGD(curves.parameters(), lr=0.1)
for batch in loader():
    batch["measures"] = batch["measures"].to(gpu)
    loss = curves(**batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
