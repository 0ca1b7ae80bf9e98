# cause: metric-state-device
# guilty: self.matrix
import torch
import torch.nn as nn

CLASSES = ("water", "forest", "field", "urban")


class ConfusionMatrix:
    def __init__(self, k):
        self.k = k
        self.matrix = torch.zeros(k, k, dtype=torch.long)

    def update(self, pred, target):
        keep = target != 255
        flat = target[keep] * self.k + pred[keep]
        counts = torch.bincount(flat, minlength=self.k ** 2)
        self.matrix += counts.view(self.k, self.k)

    def iou(self):
        inter = self.matrix.diag().float()
        union = self.matrix.sum(0) + self.matrix.sum(1) - self.matrix.diag()
        return (inter / union.clamp(min=1)).tolist()


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, bands=4, k=len(CLASSES), c=12):
        super().__init__()
        self.e1, self.e2 = block(bands, c), block(c, 2 * c)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(2 * c, c, 2, 2)
        self.d1 = block(2 * c, c)
        self.head = nn.Conv2d(c, k, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.up(self.e2(self.pool(a)))
        return self.head(self.d1(torch.cat([a, b], 1)))


def tiles(n, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        y = torch.randint(0, len(CLASSES), (2, 24, 24), generator=g)
        x = torch.randn(2, 4, 24, 24, generator=g) + y.unsqueeze(1)
        y[:, :2] = 255
        yield x, y


def main():
    torch.manual_seed(0)
    device = "cuda:0"
    net = UNet().to(device)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 0.8, 0.9, 1.5]).to(device), ignore_index=255)
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    for epoch in range(2):
        net.train()
        for x, y in tiles(4, epoch):
            loss = criterion(net(x.to(device)), y.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
        net.eval()
        metric = ConfusionMatrix(len(CLASSES))
        with torch.inference_mode():
            for x, y in tiles(2, 100):
                pred = net(x.to(device)).argmax(1)
                metric.update(pred, y.to(device))
        print(epoch, loss.item(), dict(zip(CLASSES, metric.iou())))


if __name__ == "__main__":
    main()
