# cause: metric-state-device
# guilty: self.table
"""Pixel-wise land cover segmentation with mean IoU after every epoch."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class MeanIoU:
    def __init__(self, classes, ignore=255):
        self.classes, self.ignore = classes, ignore
        self.reset()

    def reset(self):
        self.table = torch.zeros(self.classes, self.classes, dtype=torch.long)

    def update(self, logits, truth):
        guess = logits.argmax(dim=1).flatten()
        truth = truth.flatten()
        keep = truth != self.ignore
        pair = truth[keep] * self.classes + guess[keep]
        counts = torch.bincount(pair, minlength=self.classes ** 2)
        self.table += counts.view(self.classes, self.classes)

    def value(self):
        hit = self.table.diagonal().float()
        union = self.table.sum(0) + self.table.sum(1) - self.table.diagonal()
        return (hit / union.clamp(min=1)).mean().item()


class SmallUNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.enc = nn.Conv2d(4, 12, 3, padding=1)
        self.mid = nn.Conv2d(12, 12, 3, padding=1)
        self.dec = nn.Conv2d(24, classes, 1)

    def forward(self, x):
        a = F.relu(self.enc(x))
        b = F.interpolate(F.relu(self.mid(F.max_pool2d(a, 2))), scale_factor=2)
        return self.dec(torch.cat([a, b], dim=1))


def batches(n, classes, device):
    for _ in range(n):
        truth = torch.randint(classes, (2, 24, 24))
        truth[:, :2] = 255
        yield torch.rand(2, 4, 24, 24).to(device), truth.to(device)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--classes", type=int, default=6)
    ap.add_argument("--device", default="cuda")
    args = ap.parse_args()
    model = SmallUNet(args.classes).to(args.device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    iou = MeanIoU(args.classes)
    for epoch in range(args.epochs):
        for x, y in batches(3, args.classes, args.device):
            loss = F.cross_entropy(model(x), y, ignore_index=255)
            opt.zero_grad()
            loss.backward()
            opt.step()
        iou.reset()
        model.eval()
        with torch.no_grad():
            for x, y in batches(2, args.classes, args.device):
                iou.update(model(x), y)
        model.train()
        print(f"epoch {epoch} loss {loss.item():.3f} miou {iou.value():.3f}")


if __name__ == "__main__":
    main()
