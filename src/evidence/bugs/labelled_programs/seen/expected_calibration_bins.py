# cause: metric-state-device|tensor-created-on-wrong-device
# guilty: self.edges (self.edges[1:-1])
# line: 49
# repair: in Evaluator.__init__ move the metric with state to the device of the logits: self.suite.metrics["ece"].to(model.head.weight.device) OR in CalibrationError.update bring the inputs to the state: probs, labels = probs.to(self.edges.device), labels.to(self.edges.device)
"""Evaluation suite: accuracy and expected calibration error of a sharded classifier."""
import torch
import torch.nn as nn

METRICS = {}


def metric(cls):
    METRICS[cls.name] = cls
    return cls


@metric
class Accuracy:
    name = "accuracy"

    def __init__(self):
        self.right = self.seen = 0

    def update(self, probs, labels):
        self.right += int((probs.argmax(-1) == labels).sum())
        self.seen += labels.numel()

    def compute(self):
        return self.right / max(1, self.seen)


@metric
class CalibrationError:
    name = "ece"

    def __init__(self, bins=10):
        self.edges = torch.linspace(0, 1, bins + 1)
        self.count = torch.zeros(bins)
        self.conf = torch.zeros(bins)
        self.hits = torch.zeros(bins)

    def to(self, device):
        for key in ("edges", "count", "conf", "hits"):
            setattr(self, key, getattr(self, key).to(device))
        return self

    def update(self, probs, labels):
        conf, pred = probs.max(-1)
        index = torch.bucketize(conf, self.edges[1:-1])
        self.count.index_add_(0, index, torch.ones_like(conf))
        self.conf.index_add_(0, index, conf)
        self.hits.index_add_(0, index, (pred == labels).float())

    def compute(self):
        gap = (self.conf - self.hits).abs() / self.count.clamp(min=1)
        return float((gap * self.count).sum() / self.count.sum())


class MetricSuite:
    def __init__(self, names):
        self.metrics = {n: METRICS[n]() for n in names}

    def update(self, probs, labels):
        for m in self.metrics.values():
            m.update(probs, labels)

    def compute(self):
        return {n: round(m.compute(), 4) for n, m in self.metrics.items()}


class ShardedClassifier(nn.Module):
    def __init__(self, classes=7):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()).to("cuda:0")
        self.head = nn.Linear(64, classes).to("cuda:1")

    def forward(self, x):
        return self.head(self.body(x.to("cuda:0")).to("cuda:1"))


class Evaluator:
    def __init__(self, model, metrics=("accuracy", "ece")):
        self.model = model.eval()
        self.suite = MetricSuite(metrics)

    @torch.no_grad()
    def run(self, loader):
        for x, y in loader:
            probs = self.model(x).softmax(-1)
            self.suite.update(probs, y.to(probs.device))
        return self.suite.compute()


if __name__ == "__main__":
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(64, 20), torch.randint(0, 7, (64,)))
    print(Evaluator(ShardedClassifier()).run(torch.utils.data.DataLoader(data, batch_size=16)))
