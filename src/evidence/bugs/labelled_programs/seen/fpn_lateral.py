# cause: module-left-on-other-device
# guilty: ?
import torch
import torch.nn as nn
import torch.nn.functional as F


def conv_bn(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = conv_bn(3, 8, 2)
        self.c2 = conv_bn(8, 16, 2)
        self.c3 = conv_bn(16, 32, 2)

    def forward(self, x):
        a = self.c1(x)
        b = self.c2(a)
        return [a, b, self.c3(b)]


class FPN(nn.Module):
    def __init__(self, widths=(8, 16, 32), out=12):
        super().__init__()
        self.body = Backbone()
        # one 1x1 conv per level
        self.lateral = {w: nn.Conv2d(w, out, 1) for w in widths}
        self.smooth = nn.ModuleList(nn.Conv2d(out, out, 3, padding=1) for _ in widths)

    def forward(self, images):
        levels = self.body(images)
        top = None
        outs = []
        for feat, smooth in zip(reversed(levels), self.smooth):
            lat = self.lateral[feat.shape[1]](feat)
            if top is not None:
                lat = lat + F.interpolate(top, size=lat.shape[-2:], mode="nearest")
            top = lat
            outs.append(smooth(lat))
        return outs


def run_epoch(model, device):
    model.train()
    for _ in range(2):
        batch = torch.rand(2, 3, 32, 32).to(device)
        pyramids = model(batch)
        loss = sum(p.square().mean() for p in pyramids)
        loss.backward()


device = torch.device("cuda", 1)
run_epoch(FPN().to(device), device)
