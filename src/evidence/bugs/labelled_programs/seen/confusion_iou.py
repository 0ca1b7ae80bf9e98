# cause: metric-state-device
# guilty: self.matrix
import torch
from torch import nn


class ConfusionMatrix:
    def __init__(self, num_classes):
        self.k = num_classes
        self.matrix = torch.zeros(num_classes, num_classes, dtype=torch.long)

    def update(self, pred, target):
        keep = (target >= 0) & (target < self.k)
        idx = self.k * target[keep] + pred[keep]
        self.matrix += torch.bincount(idx, minlength=self.k ** 2).view(self.k, self.k)

    def iou(self):
        inter = self.matrix.diagonal()
        union = self.matrix.sum(0) + self.matrix.sum(1) - inter
        return inter / union.clamp(min=1)


class RoadSegmenter(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 12, 3, 1, 1), nn.ReLU())
        self.dec = nn.ConvTranspose2d(12, classes, 2, 2)

    def forward(self, x):
        return self.dec(self.enc(x))


def batches(n, classes):
    for _ in range(n):
        yield torch.rand(2, 3, 16, 16), torch.randint(0, classes, (2, 16, 16))


@torch.no_grad()
def evaluate(model, device, classes=6):
    model.eval()
    cm = ConfusionMatrix(classes)
    for image, target in batches(3, classes):
        image, target = image.to(device), target.to(device)
        pred = model(image).argmax(1)
        cm.update(pred, target)
    return cm.iou().mean().item()


if __name__ == "__main__":
    dev = "cuda:1"
    model = RoadSegmenter(6).to(dev)
    print(f"mIoU {evaluate(model, dev):.3f}")
