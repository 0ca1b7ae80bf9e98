# cause: metric-state-device
# guilty: self.matrix (matrix, metric state)
# line: 44
# repair: create the metric on the device of the predictions, or move it: metrics = MetricBag.build(...).to(device) in evaluate OR in Confusion.update add the counts after .cpu() / to(self.matrix.device)
"""Segmentation with the encoder and the decoder on two cards, and metrics by hand."""
import torch
import torch.nn.functional as F
from torch import nn

METRICS = {}


def metric(name):
    def add(cls):
        METRICS[name] = cls
        return cls
    return add


class Metric:
    def reset(self):
        raise NotImplementedError

    def to(self, device):
        for key, value in vars(self).items():
            if torch.is_tensor(value):
                setattr(self, key, value.to(device))
        return self


@metric("confusion")
class Confusion(Metric):
    def __init__(self, classes):
        self.classes = classes
        self.reset()

    def reset(self):
        self.matrix = torch.zeros(self.classes, self.classes, dtype=torch.long)

    def update(self, prediction, target):
        keep = target >= 0
        joint = target[keep] * self.classes + prediction[keep]
        counts = torch.bincount(joint, minlength=self.classes ** 2)
        self.matrix += counts.view(self.classes, self.classes)

    def compute(self):
        m = self.matrix.float()
        iou = m.diag() / (m.sum(0) + m.sum(1) - m.diag()).clamp(min=1)
        return iou.mean().item()


@metric("pixel")
class PixelAccuracy(Metric):
    def __init__(self, classes):
        self.reset()

    def reset(self):
        self.right = self.seen = 0

    def update(self, prediction, target):
        keep = target >= 0
        self.right += int((prediction[keep] == target[keep]).sum())
        self.seen += int(keep.sum())

    def compute(self):
        return self.right / max(self.seen, 1)


class MetricBag:
    def __init__(self, metrics):
        self.metrics = metrics

    @classmethod
    def build(cls, names, classes):
        return cls({name: METRICS[name](classes) for name in names})

    def to(self, device):
        for m in self.metrics.values():
            m.to(device)
        return self

    def update(self, prediction, target):
        for m in self.metrics.values():
            m.update(prediction, target)

    def compute(self):
        return {name: m.compute() for name, m in self.metrics.items()}


class SplitSegmenter(nn.Module):
    def __init__(self, classes, first, second):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, 1)).to(first)
        self.decoder = nn.Sequential(nn.ReLU(), nn.Conv2d(24, classes, 1)).to(second)
        self.first, self.second = first, second

    def forward(self, x):
        h = self.encoder(x.to(self.first)).to(self.second)
        return F.interpolate(self.decoder(h), scale_factor=4, mode="nearest")


def evaluate(model, loader, classes, device):
    metrics = MetricBag.build(["pixel", "confusion"], classes)
    model.eval()
    with torch.no_grad():
        for image, target in loader:
            prediction = model(image).argmax(1)
            metrics.update(prediction, target.to(device))
    return metrics.compute()


def scenes(count):
    for _ in range(count):
        target = torch.randint(-1, 4, (2, 32, 32))
        yield torch.randn(2, 3, 32, 32), target


if __name__ == "__main__":
    torch.manual_seed(0)
    segmenter = SplitSegmenter(4, "cuda:0", "cuda:1")
    print(evaluate(segmenter, scenes(3), 4, "cuda:1"))
