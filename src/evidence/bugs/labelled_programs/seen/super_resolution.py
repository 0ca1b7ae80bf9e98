# cause: module-left-on-other-device
# guilty: s
import torch
import torch.nn as nn
import torch.nn.functional as F


class SRNet(nn.Module):
    def __init__(self, c=16, scale=2):
        super().__init__()
        self.scale = scale
        self.body = nn.Sequential(nn.Conv2d(3, c, 5, padding=2), nn.PReLU(), nn.Conv2d(c, c, 3, padding=1), nn.PReLU())
        self.up = nn.Sequential(nn.Conv2d(c, 3 * scale ** 2, 3, padding=1), nn.PixelShuffle(scale))

    def forward(self, lr):
        base = F.interpolate(lr, scale_factor=self.scale, mode="bicubic", align_corners=False)
        return base + self.up(self.body(lr))


class FeatureNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([
            nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()),
            nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU())])

    def forward(self, x):
        feats = []
        for s in self.stages:
            x = s(x)
            feats.append(x)
        return feats


class PerceptualLoss:
    def __init__(self, weights=(1.0, 0.5)):
        self.extractor = FeatureNet().eval().requires_grad_(False)
        self.weights = weights

    def __call__(self, pred, target):
        a, b = self.extractor(pred), self.extractor(target)
        return sum(w * F.l1_loss(x, y) for w, x, y in zip(self.weights, a, b))


def psnr(a, b):
    return -10 * torch.log10(F.mse_loss(a.clamp(0, 1), b))


def train(gpu=torch.device("cuda:0"), steps=4):
    torch.manual_seed(3)
    net = SRNet().to(gpu)
    perceptual = PerceptualLoss()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    val = torch.rand(2, 3, 32, 32, device=gpu)
    val_lr = F.avg_pool2d(val, 2)
    with torch.no_grad():
        print("bicubic+init", psnr(net(val_lr), val).item())
    for step in range(steps):
        hr = torch.rand(4, 3, 32, 32).to(gpu)
        sr = net(F.avg_pool2d(hr, 2))
        pixel = F.l1_loss(sr, hr)
        loss = pixel + 0.1 * perceptual(sr, hr)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())
    with torch.no_grad():
        print("trained", psnr(net(val_lr), val).item())


if __name__ == "__main__":
    train()
