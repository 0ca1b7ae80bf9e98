# cause: loss-or-label-on-other-device
# guilty: self.weight (weight)
# line: 33
# repair: in Experiment.__init__ move the built losses too, self.losses = nn.ModuleDict(...).to(device) with weight as a buffer OR in BalancedCE.forward use self.weight.to(logits.device) OR give build_loss the device
"""Configurable training: losses come from a registry and are summed with factors."""
from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F

LOSSES = {}


def loss(name):
    def wrap(cls):
        LOSSES[name] = cls
        return cls

    return wrap


@loss("balanced_ce")
class BalancedCE(nn.Module):
    def __init__(self, labels, smoothing=0.05):
        super().__init__()
        count = Counter(labels.tolist())
        weight = torch.tensor([1.0 / count[c] for c in sorted(count)])
        self.register_buffer("weight", weight / weight.mean())
        self.smoothing = smoothing

    def forward(self, logits, target):
        return F.cross_entropy(logits, target, weight=self.weight, label_smoothing=self.smoothing)


@loss("entropy")
class EntropyBonus(nn.Module):
    def __init__(self, labels):
        super().__init__()

    def forward(self, logits, target):
        p = logits.softmax(-1)
        return (p * p.clamp(min=1e-6).log()).sum(-1).mean()


def build_loss(config, labels):
    return [(factor, LOSSES[name](labels, **options)) for name, factor, options in config]


class Experiment(nn.Module):
    def __init__(self, config, labels, features=10):
        super().__init__()
        classes = int(labels.max()) + 1
        self.net = nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, classes))
        self.losses = build_loss(config["losses"], labels)

    def forward(self, x, y):
        logits = self.net(x)
        return sum(factor * criterion(logits, y) for factor, criterion in self.losses)


def run(config):
    torch.manual_seed(config["seed"])
    device = torch.device(config["device"])
    x = torch.randn(64, 10)
    y = (x[:, 0] > 1).long() + (x[:, 1] > 0).long()
    experiment = Experiment(config, y).to(device)
    optimizer = torch.optim.AdamW(experiment.parameters(), lr=config["lr"])
    history = []
    for rows in torch.randperm(64).split(16):
        value = experiment(x[rows].to(device), y[rows].to(device))
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        history.append(value.item())
    return history


if __name__ == "__main__":
    config = {
        "seed": 0,
        "device": "cuda:0",
        "lr": 3e-3,
        "losses": [("entropy", 0.1, {}), ("balanced_ce", 1.0, {"smoothing": 0.1})],
    }
    print(run(config))
