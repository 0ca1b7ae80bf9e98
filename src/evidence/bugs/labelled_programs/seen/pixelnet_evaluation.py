# cause: metric-state-device
# guilty: self.confmat
# after: Lightning-AI/torchmetrics#275, Lightning-AI/torchmetrics#1865
from dataclasses import dataclass, field

import torch
from torch import nn

class Metric(nn.Module):
    def __init__(self):
        super().__init__()
        self._defaults = {}

    def add_state(self, name, default):
        self._defaults[name] = default.clone()
        self.register_buffer(name, default)

    def reset(self):
        for name, value in self._defaults.items():
            getattr(self, name).copy_(value)

class ConfusionMatrix(Metric):
    def __init__(self, num_classes):
        super().__init__()
        self.num_classes = num_classes
        self.add_state("confmat", torch.zeros(num_classes, num_classes))

    def update(self, preds, target):
        unique = target.flatten() * self.num_classes + preds.flatten()
        confmat = torch.bincount(unique, minlength=self.num_classes ** 2)
        self.confmat += confmat.reshape(self.num_classes, self.num_classes)

    def compute(self):
        return self.confmat

class IoU(ConfusionMatrix):
    def compute(self):
        inter = self.confmat.diag()
        union = self.confmat.sum(0) + self.confmat.sum(1) - inter
        return (inter / union.clamp(min=1)).mean()

@dataclass
class Evaluator:
    num_classes: int
    metrics: dict = field(default_factory=dict)

    def __post_init__(self):
        self.metrics = {"cm": ConfusionMatrix(self.num_classes), "iou": IoU(self.num_classes)}

    def run(self, model, batches, device):
        model.eval()
        with torch.no_grad():
            for image, mask in batches:
                logits = model(image.to(device))
                for m in self.metrics.values():
                    m.update(logits.argmax(-1), mask.to(device))
        return {k: m.compute() for k, m in self.metrics.items()}

class PixelNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, classes))

    def forward(self, x):
        return self.body(x)

if __name__ == "__main__":
    device = torch.device("cuda")
    net = PixelNet(4).to(device)
    data = [(torch.rand(2, 8, 8, 3), torch.randint(0, 4, (2, 8, 8))) for _ in range(3)]
    print(Evaluator(num_classes=4).run(net, data, device)["iou"])
