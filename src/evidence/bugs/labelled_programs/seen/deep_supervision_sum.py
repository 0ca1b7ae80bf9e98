# cause: loss-or-label-on-other-device
# guilty: terms (auxiliary losses)
# line: 58
# repair: bring each auxiliary loss to one card before stacking: append `value.to(self.home)` in DeepSupervision.__call__ OR compute all heads' losses on the device of the main output
"""Retinal vessel segmentation with deep supervision; each level has a head and a loss of its own."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def dice(logits, mask):
    p = logits.sigmoid()
    return 1 - (2 * (p * mask).sum() + 1) / (p.sum() + mask.sum() + 1)


LOSSES = {"bce": F.binary_cross_entropy_with_logits, "dice": dice}


class Level(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Conv2d(cout, 1, 1)

    def forward(self, x):
        x = self.conv(x)
        return x, self.head(x)


class VesselNet(nn.Module):
    def __init__(self, widths=(8, 16, 16), devices=("cuda:0", "cuda:0", "cuda:1")):
        super().__init__()
        self.devices = devices
        chans = (3,) + tuple(widths[:-1])
        self.levels = nn.ModuleList(Level(a, b).to(d) for a, b, d in zip(chans, widths, devices))

    def forward(self, x):
        outs = []
        for level, device in zip(self.levels, self.devices):
            x, logits = level(x.to(device))
            outs.append(logits)
        return outs


class DeepSupervision:
    def __init__(self, kinds, weights):
        self.fns = [LOSSES[k] for k in kinds]
        self.weights = weights

    def level_loss(self, logits, mask):
        small = F.interpolate(mask.to(logits.device), size=logits.shape[-2:])
        return sum(fn(logits, small) for fn in self.fns)

    def __call__(self, outs, mask):
        terms = []
        for weight, logits in zip(self.weights, outs):
            terms.append(weight * self.level_loss(logits, mask))
        return torch.stack(terms).sum()


if __name__ == "__main__":
    torch.manual_seed(0)
    net = VesselNet()
    criterion = DeepSupervision(["bce", "dice"], [0.2, 0.3, 0.5])
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(3):
        image = torch.rand(2, 3, 32, 32)
        mask = (image.mean(1, keepdim=True) > 0.5).float()
        loss = criterion(net(image), mask)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))
