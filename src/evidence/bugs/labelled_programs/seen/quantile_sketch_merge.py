# cause: metric-state-device
# guilty: other.counts
# line: 24
# repair: in HistogramSketch.merge bring the other state here (`other.counts.to(self.counts.device)`) OR merge copies that were moved to the host before report()
"""Two forecasters are judged on two cards; their error histograms are merged for the report."""
import torch
import torch.nn as nn


class HistogramSketch:
    """Streaming quantiles of absolute errors."""

    def __init__(self, low=0.0, high=5.0, bins=100):
        self.low, self.high, self.bins = low, high, bins
        self.counts = None

    def update(self, errors):
        hist = torch.histc(errors.float(), self.bins, self.low, self.high)
        self.counts = hist if self.counts is None else self.counts + hist
        return self

    def merge(self, other):
        merged = HistogramSketch(self.low, self.high, self.bins)
        merged.counts = self.counts + other.counts
        return merged

    def quantile(self, q):
        cdf = self.counts.cumsum(0) / self.counts.sum()
        step = (self.high - self.low) / self.bins
        return self.low + step * (int((cdf < q).sum()) + 1)


class Forecaster(nn.Module):
    def __init__(self, history, horizon):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(history, 32), nn.ReLU(), nn.Linear(32, horizon))

    def forward(self, x):
        return self.net(x)


class Judge:
    def __init__(self, device, horizon):
        self.device = device
        self.model = Forecaster(24, horizon).to(device).eval()
        self.sketch = HistogramSketch()

    @torch.no_grad()
    def run(self, series):
        windows = series.unfold(0, 24 + self.model.net[-1].out_features, 6)
        past, future = windows[:, :24].to(self.device), windows[:, 24:].to(self.device)
        self.sketch.update((self.model(past) - future).abs())
        return self


def report(judges):
    total = judges[0].sketch
    for judge in judges[1:]:
        total = total.merge(judge.sketch)
    return {q: total.quantile(q) for q in (0.5, 0.9, 0.99)}


if __name__ == "__main__":
    torch.manual_seed(0)
    series = torch.sin(torch.arange(400) / 5.0) + 0.1 * torch.randn(400)
    judges = [Judge("cuda:0", 6).run(series), Judge("cuda:1", 12).run(series)]
    print({q: round(v, 2) for q, v in report(judges).items()})
