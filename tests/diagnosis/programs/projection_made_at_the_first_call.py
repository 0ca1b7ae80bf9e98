# cause: module-left-on-other-device
# guilty: self.match (self.match(series))
"""Forecasting: a decoder learns the width of its input with the first batch and makes a projection for it."""
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.hidden = hidden
        self.cells = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def prepare(self, width):
        self.match = nn.Linear(width, self.hidden)
        self.skip = nn.Linear(width, self.hidden, bias=False)

    def forward(self, series):
        if not hasattr(self, "match"):
            self.prepare(series.size(-1))
        steps, _ = self.cells(self.match(series))
        return self.head(steps + self.skip(series))


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder = Decoder(12)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, series):
        return self.scale * self.decoder(series).squeeze(-1)


model = Forecaster().to("cuda:1")
for _ in range(2):
    loss = model(torch.randn(3, 7, 5, device="cuda:1")).pow(2).mean()
    loss.backward()
