# cause: metric-state-device
# guilty: self.tp (state or self.metrics)
# after: Lightning-AI/torchmetrics#917
import torch
import torch.nn as nn

class Metric:
    def __init__(self):
        self._defaults = {}
    def add_state(self, name, default):
        self._defaults[name] = default
        setattr(self, name, default.clone())
    def reset(self):
        for name, value in self._defaults.items():
            setattr(self, name, value.clone())
    def to(self, device):
        for name, value in self._defaults.items():
            self._defaults[name] = value.to(device)
            setattr(self, name, getattr(self, name).to(device))
        return self
    def __call__(self, preds, target):
        self.update(preds, target)
        return self.compute()
class StatScores(Metric):
    def __init__(self, num_labels, threshold=0.5):
        super().__init__()
        self.threshold = threshold
        for name in ("tp", "fp", "fn"):
            self.add_state(name, torch.zeros(num_labels, dtype=torch.long))
    def update(self, preds, target):
        hard, target = preds > self.threshold, target.bool()
        self.tp += (hard & target).sum(dim=0)
        self.fp += (hard & ~target).sum(dim=0)
        self.fn += (~hard & target).sum(dim=0)

class Recall(StatScores):
    def compute(self):
        return (self.tp / (self.tp + self.fn).clamp(min=1)).mean()

class Precision(StatScores):
    def compute(self):
        return (self.tp / (self.tp + self.fp).clamp(min=1)).mean()

class MetricCollection(dict):
    def update_all(self, preds, target):
        for metric in self.values():
            metric.update(preds, target)
    def compute_all(self):
        return {name: round(metric.compute().item(), 3) for name, metric in self.items()}

class TagModel(nn.Module):
    def __init__(self, labels=8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, labels))
    def forward(self, x):
        return self.net(x)

def evaluate(model, loader, metrics, device):
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            metrics.update_all(model(x).sigmoid(), y)
    return metrics.compute_all()

if __name__ == "__main__":
    device = torch.device("cuda")
    model = TagModel().to(device)
    metrics = MetricCollection(recall=Recall(8), precision=Precision(8))
    loader = [(torch.randn(16, 20), torch.randint(0, 2, (16, 8))) for _ in range(3)]
    print(evaluate(model, loader, metrics, device))
