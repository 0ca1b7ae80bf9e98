# cause: tensor-created-on-wrong-device
# guilty: edges
import torch
from torch import nn


class CalibrationMetric(nn.Module):
    def __init__(self, bins=10):
        super().__init__()
        self.bins = bins
        self.register_buffer("right", torch.zeros(bins))
        self.register_buffer("sure", torch.zeros(bins))
        self.register_buffer("count", torch.zeros(bins))

    def update(self, logits, y):
        conf, pred = logits.softmax(-1).max(-1)
        edges = torch.linspace(0, 1, self.bins + 1)[1:-1]
        b = torch.bucketize(conf, edges)
        self.right.index_add_(0, b, (pred == y).float())
        self.sure.index_add_(0, b, conf)
        self.count.index_add_(0, b, torch.ones_like(conf))

    def compute(self):
        n = self.count.clamp(min=1)
        gap = (self.right / n - self.sure / n).abs()
        return (gap * self.count).sum() / self.count.sum()


device = "cuda:1"
net = nn.Linear(12, 4).to(device).eval()
metric = CalibrationMetric().to(device)
with torch.no_grad():
    for _ in range(5):
        x = torch.randn(64, 12, device=device)
        labels = torch.randint(0, 4, (64,), device=device)
        metric.update(net(x), labels)
print("ece", metric.compute().item())
