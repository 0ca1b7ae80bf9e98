# cause: metric-state-device
# guilty: self.matrix
"""Land cover classification with a running confusion matrix per epoch."""
import torch
from torch import nn


class ConfusionMatrix:
    def __init__(self, classes, ignore=255):
        self.classes, self.ignore = classes, ignore
        self.reset()

    def reset(self):
        self.matrix = torch.zeros(self.classes, self.classes, dtype=torch.long)
        self.batches = 0
        return self

    def to(self, device):
        self.matrix = self.matrix.to(device)
        return self

    def update(self, logits, labels):
        guess = logits.argmax(1).flatten()
        labels = labels.flatten().to(guess.device)
        keep = labels != self.ignore
        cells = labels[keep] * self.classes + guess[keep]
        counts = torch.bincount(cells, minlength=self.classes ** 2)
        self.matrix += counts.view(self.classes, self.classes)
        self.batches += 1

    def compute(self):
        hit = self.matrix.diag().float()
        union = self.matrix.sum(0) + self.matrix.sum(1) - self.matrix.diag()
        return (hit / union.clamp(min=1)).mean().item()


class Engine:
    def __init__(self, device, classes=5):
        self.device = torch.device(device)
        self.model = nn.Sequential(nn.Conv2d(4, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, classes, 1))
        self.model.to(self.device)
        self.metrics = {"iou": ConfusionMatrix(classes).to(self.device)}
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def run_epoch(self, tiles):
        for bands, labels in tiles:
            logits = self.model(bands.to(self.device))
            loss = nn.functional.cross_entropy(logits, labels.to(self.device), ignore_index=255)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            for metric in self.metrics.values():
                metric.update(logits.detach(), labels)
        report = {name: metric.compute() for name, metric in self.metrics.items()}
        for metric in self.metrics.values():
            metric.reset()
        return report


def tiles(n):
    for _ in range(n):
        labels = torch.randint(0, 5, (2, 10, 10))
        labels[:, 0] = 255
        yield torch.rand(2, 4, 10, 10), labels


if __name__ == "__main__":
    torch.manual_seed(0)
    engine = Engine("cuda:0")
    for epoch in range(3):
        print(epoch, engine.run_epoch(tiles(3)))
