# cause: metric-state-device|tensor-created-on-wrong-device
# guilty: self.mat (counts)
import torch
import torch.nn as nn


class ConfusionMeter:
    def __init__(self, classes):
        self.classes = classes
        self.reset()

    def reset(self):
        self.mat = torch.zeros(self.classes, self.classes, dtype=torch.long)

    @torch.no_grad()
    def update(self, logits, target):
        pred = logits.argmax(1)
        keep = target != 255
        idx = target[keep] * self.classes + pred[keep]
        counts = torch.bincount(idx, minlength=self.classes ** 2)
        self.mat += counts.view(self.classes, self.classes)

    def iou(self):
        tp = self.mat.diag().float()
        return (tp / (self.mat.sum(0) + self.mat.sum(1) - tp).clamp(min=1)).mean().item()


device = "cuda:0"
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 5, 1)).to(device)
meter = ConfusionMeter(5)
opt = torch.optim.SGD(net.parameters(), lr=0.1)

for epoch in range(2):
    net.train()
    x, y = torch.randn(4, 3, 16, 16, device=device), torch.randint(0, 5, (4, 16, 16), device=device)
    loss = nn.functional.cross_entropy(net(x), y, ignore_index=255)
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.eval()
    meter.reset()
    for _ in range(3):
        x, y = torch.randn(4, 3, 16, 16), torch.randint(0, 5, (4, 16, 16))
        y[:, 0] = 255
        meter.update(net(x.to(device)), y.to(device))
    print(epoch, loss.item(), meter.iou())
