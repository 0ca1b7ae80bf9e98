# cause: metric-state-device|tensor-created-on-wrong-device
# guilty: self.matrix (cells, values)
# line: 30
# repair: in Harness.__init__ make the metrics for the device of the outputs (the last stage) OR in ConfusionMatrix.update bring cells to self.matrix.device first
"""Evaluation harness: metrics by name, updated batch by batch, for any classifier."""
import torch
import torch.nn as nn

METRICS = {}


def metric(cls):
    METRICS[cls.__name__.lower()] = cls
    return cls


class Metric:
    def __init__(self, classes, device):
        self.classes, self.device = classes, device
        self.reset()


@metric
class ConfusionMatrix(Metric):
    def reset(self):
        self.matrix = torch.zeros(self.classes, self.classes, dtype=torch.long, device=self.device)

    def update(self, logits, labels):
        cells = torch.bincount(labels * self.classes + logits.argmax(-1), minlength=self.classes**2)
        self.matrix += cells.view(self.classes, self.classes)

    def compute(self):
        hit = self.matrix.diagonal().float()
        return (hit / self.matrix.sum(1).clamp(min=1)).mean().item()


@metric
class TopK(Metric):
    def reset(self):
        self.hit, self.seen = 0, 0

    def update(self, logits, labels, k=2):
        self.hit += (logits.topk(k).indices == labels[:, None]).any(-1).sum().item()
        self.seen += len(labels)

    def compute(self):
        return self.hit / max(self.seen, 1)


class StagedConvNet(nn.Module):
    def __init__(self, classes, cards):
        super().__init__()
        self.cards = cards
        self.low = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU()).to(cards[0])
        self.high = nn.Sequential(nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)).to(cards[1])
        self.linear = nn.Linear(16, classes).to(cards[1])

    def forward(self, x):
        x = self.low(x.to(self.cards[0]))
        return self.linear(self.high(x.to(self.cards[1])).flatten(1))


class Harness:
    def __init__(self, model, classes, wanted):
        self.model = model.eval()
        self.device = next(model.parameters()).device
        self.metrics = {name: METRICS[name](classes, self.device) for name in wanted}

    @torch.inference_mode()
    def run(self, loader):
        for m in self.metrics.values():
            m.reset()
        for images, labels in loader:
            logits = self.model(images.to(self.device))
            labels = labels.to(logits.device)
            for m in self.metrics.values():
                m.update(logits, labels)
        return {name: round(m.compute(), 4) for name, m in self.metrics.items()}


if __name__ == "__main__":
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.rand(40, 3, 16, 16), torch.randint(0, 4, (40,)))
    loader = torch.utils.data.DataLoader(data, batch_size=10)
    model = StagedConvNet(4, [torch.device("cuda:0"), torch.device("cuda:1")])
    harness = Harness(model, 4, ["topk", "confusionmatrix"])
    print(harness.run(loader))
