# cause: hard-coded-device
# guilty: totals
"""Histograms: a helper tells whether the numbers are on a GPU, and says no more of it than its kind."""
import torch
from torch import nn


class Counter:
    def __init__(self, bins):
        self.bins = bins

    def _kind(self, numbers):
        rows = numbers.size(0)
        return ("cuda" if numbers.is_cuda else "cpu"), rows

    def count(self, numbers):
        kind, rows = self._kind(numbers)
        totals = torch.zeros(rows, self.bins, device=kind)
        for cut in range(self.bins):
            totals[:, cut] = cut
        return totals + numbers.softmax(-1)


layer = nn.Linear(6, 4).to("cuda:1")
with torch.no_grad():
    print(Counter(4).count(layer(torch.rand(3, 6, device="cuda:1"))).shape)
