# cause: metric-state-device|module-left-on-other-device
# guilty: self.table
"""Train a tiny pixel classifier and report the mean IoU."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Confusion(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.classes = classes
        self.register_buffer("table", torch.zeros(classes, classes, dtype=torch.long))

    def update(self, pred, target):
        flat = target.flatten() * self.classes + pred.flatten()
        counts = torch.bincount(flat, minlength=self.classes**2)
        self.table += counts.view(self.classes, self.classes)

    def miou(self):
        hit = self.table.diag().float()
        union = self.table.sum(0) + self.table.sum(1) - self.table.diag()
        return (hit / union.clamp(min=1)).mean().item()


def make_loader(n=24, classes=3):
    g = torch.Generator().manual_seed(0)
    masks = torch.randint(classes, (n, 12, 12), generator=g)
    images = torch.randn(n, 3, 12, 12, generator=g) + masks.unsqueeze(1)
    return DataLoader(TensorDataset(images, masks), batch_size=8)


def train(net, loader, device, epochs=2):
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    crit = nn.CrossEntropyLoss().to(device)
    for _ in range(epochs):
        for img, mask in loader:
            img, mask = img.to(device), mask.to(device)
            loss = crit(net(img), mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
    print("train loss", round(loss.item(), 4))


@torch.no_grad()
def evaluate(net, loader, meter, device):
    net.eval()
    for img, mask in loader:
        pred = net(img.to(device)).argmax(1)
        meter.update(pred, mask.to(device))
    return meter.miou()


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda")
    classes = 3
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, classes, 1)).to(device)
    loader = make_loader(classes=classes)
    meter = Confusion(classes)
    train(net, loader, device)
    print("mIoU", evaluate(net, loader, meter, device))
