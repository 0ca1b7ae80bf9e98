# cause: metric-state-device
# guilty: self.mat (torch.bincount(flat, minlength=self.n ** 2).view(self.n, self.n))
import torch
import torch.nn as nn


class ConfusionMeter:
    def __init__(self, n):
        self.n = n
        self.reset()

    def reset(self):
        self.mat = torch.zeros(self.n, self.n, dtype=torch.long)

    def update(self, pred, target):
        flat = target * self.n + pred
        self.mat += torch.bincount(flat, minlength=self.n ** 2).view(self.n, self.n)

    def iou(self):
        tp = self.mat.diag().float()
        return tp / (self.mat.sum(0) + self.mat.sum(1) - tp).clamp(min=1)


def validate(net, batches, device, n_cls):
    meter = ConfusionMeter(n_cls)
    net.eval()
    with torch.inference_mode():
        for img, seg in batches:
            img = img.to(device)
            seg = seg.to(device)
            pred = net(img).argmax(1)
            keep = seg != 255
            meter.update(pred[keep], seg[keep])
    return meter.iou()


if __name__ == "__main__":
    device = torch.device("cuda:0")
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 5, 1)).to(device)
    batches = []
    for _ in range(3):
        seg = torch.randint(0, 5, (2, 16, 16))
        seg[torch.rand(seg.shape) < 0.1] = 255
        batches.append((torch.rand(2, 3, 16, 16), seg))
    iou = validate(net, batches, device, 5)
    print("mIoU", round(iou.mean().item(), 4), iou.tolist())
