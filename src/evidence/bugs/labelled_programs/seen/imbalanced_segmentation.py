# cause: loss-or-label-on-other-device
# guilty: ?
"""Tiny binary segmentation with a weighted loss. Card 0 is busy with another job, so everything goes to card 1."""
import torch
import torch.nn as nn
import torch.nn.functional as F

DEV = torch.device("cuda:1")


class UNetish(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.down = nn.Conv2d(3, ch, 3, stride=2, padding=1)
        self.mid = nn.Conv2d(ch, ch, 3, padding=1)
        self.up = nn.ConvTranspose2d(ch, ch, 2, stride=2)
        self.head = nn.Conv2d(ch, 3, 1)

    def forward(self, x):
        h = F.relu(self.down(x))
        h = F.relu(self.mid(h)) + h
        return self.head(self.up(h))


def pixel_frequencies(masks, n_classes):
    counts = torch.bincount(masks.flatten(), minlength=n_classes).float()
    return counts / counts.sum()


def batches(images, masks, size):
    for i in range(0, len(images), size):
        yield images[i:i + size], masks[i:i + size]


def main():
    torch.manual_seed(0)
    images = torch.rand(8, 3, 16, 16)
    masks = torch.randint(0, 3, (8, 16, 16))

    freq = pixel_frequencies(masks, 3)
    inv = 1.0 / (freq + 1e-3)
    criterion = nn.CrossEntropyLoss(weight=inv / inv.sum())

    net = UNetish().to(DEV)
    opt = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.9)

    for epoch in range(2):
        total = torch.zeros((), device=DEV)
        for img, msk in batches(images, masks, 4):
            img = img.to(DEV, non_blocking=True)
            msk = msk.to(DEV, non_blocking=True)
            opt.zero_grad(set_to_none=True)
            logits = net(img)
            loss = criterion(logits, msk)
            loss.backward()
            opt.step()
            total += loss.detach()
        print(f"epoch {epoch}: {total.item():.4f}")


if __name__ == "__main__":
    main()
