# cause: loss-or-label-on-other-device
# guilty: weights (class weights, weight)
# line: 32
# repair: make the class weights on the device of the logits: weighted_ce(counts, model.output_device) in Recipe.prepare instead of cfg.device OR F.cross_entropy(logits, target, weight=weights.to(logits.device)) in the closure
"""Training recipes by name; the network has its last stage on another card."""
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    device: str = "cuda:0"
    stages: list = field(default_factory=lambda: ["cuda:0", "cuda:1"])
    loss: str = "weighted"
    classes: int = 5
    lr: float = 1e-3


def plain_ce(counts, device):
    return F.cross_entropy


def weighted_ce(counts, device, beta=0.99):
    effective = (1 - beta ** counts.float()) / (1 - beta)
    weights = (1 / effective).to(device)
    weights = weights / weights.mean()

    def loss(logits, target):
        return F.cross_entropy(logits, target, weight=weights)

    return loss


LOSSES = {"plain": plain_ce, "weighted": weighted_ce}


class DepthwiseStage(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.depth = nn.Conv2d(cin, cin, 3, padding=1, groups=cin)
        self.point = nn.Conv2d(cin, cout, 1)
        self.bn = nn.BatchNorm2d(cout)

    def forward(self, x):
        return F.max_pool2d(F.relu(self.bn(self.point(self.depth(x)))), 2)


class StagedNet(nn.Module):
    def __init__(self, classes, devices):
        super().__init__()
        self.devices = [torch.device(d) for d in devices]
        self.first = DepthwiseStage(3, 16).to(self.devices[0])
        self.second = nn.Sequential(DepthwiseStage(16, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                    nn.Linear(32, classes)).to(self.devices[-1])

    @property
    def output_device(self):
        return self.devices[-1]

    def forward(self, x):
        x = self.first(x.to(self.devices[0]))
        return self.second(x.to(self.devices[-1]))


class RareSpecies(torch.utils.data.Dataset):
    shares = [0.6, 0.2, 0.1, 0.06, 0.04]

    def __init__(self, count):
        self.labels = torch.multinomial(torch.tensor(self.shares), count, replacement=True)

    def counts(self):
        return torch.bincount(self.labels, minlength=len(self.shares)).clamp(min=1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.randn(3, 16, 16) + self.labels[i] / 5, self.labels[i]


class Recipe:
    def __init__(self, cfg):
        self.cfg = cfg

    def prepare(self, dataset):
        self.loader = torch.utils.data.DataLoader(dataset, batch_size=16, shuffle=True)
        self.model = StagedNet(self.cfg.classes, self.cfg.stages)
        self.loss = LOSSES[self.cfg.loss](dataset.counts(), self.cfg.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.cfg.lr)
        return self

    def run(self):
        for image, label in self.loader:
            logits = self.model(image)
            loss = self.loss(logits, label.to(self.model.output_device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            yield loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    for value in Recipe(Config()).prepare(RareSpecies(64)).run():
        print(round(value, 4))
