# cause: loss-or-label-on-other-device
# guilty: depth_loss
import torch
from torch import nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, c, 3, 2, 1), nn.ReLU(), nn.Conv2d(c, c, 3, 2, 1), nn.ReLU())

    def forward(self, x):
        return self.net(x)


class SegHead(nn.Module):
    def __init__(self, c=24, k=5):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(c, c, 3, 1, 1), nn.ReLU(), nn.Conv2d(c, k, 1))

    def forward(self, f, size):
        return F.interpolate(self.net(f), size=size, mode="bilinear", align_corners=False)


class DepthHead(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(c, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 1, 1), nn.Softplus())

    def forward(self, f, size):
        return F.interpolate(self.net(f), size=size)[:, 0]


class Perception(nn.Module):
    def __init__(self, main="cuda:0", side="cuda:1"):
        super().__init__()
        self.main, self.side = torch.device(main), torch.device(side)
        self.backbone = Backbone().to(self.main)
        self.seg = SegHead().to(self.main)
        self.depth = DepthHead().to(self.side)

    def forward(self, img):
        img = img.to(self.main)
        f = self.backbone(img)
        return self.seg(f, img.shape[-2:]), self.depth(f.to(self.side), img.shape[-2:])

    def losses(self, img, seg, depth):
        seg_pred, depth_pred = self(img)
        seg_loss = F.cross_entropy(seg_pred, seg.to(seg_pred.device))
        valid = (depth > 0).to(depth_pred.device)
        depth_loss = (depth_pred - depth.to(depth_pred.device)).abs()[valid].mean()
        return seg_loss, depth_loss


def main():
    torch.manual_seed(0)
    model = Perception()
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        img = torch.rand(2, 3, 32, 32)
        seg = torch.randint(0, 5, (2, 32, 32))
        depth = torch.rand(2, 32, 32) - 0.1
        seg_loss, depth_loss = model.losses(img, seg, depth)
        loss = seg_loss + 0.5 * depth_loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{step} seg {seg_loss.item():.3f} depth {depth_loss.item():.3f}")


if __name__ == "__main__":
    main()
