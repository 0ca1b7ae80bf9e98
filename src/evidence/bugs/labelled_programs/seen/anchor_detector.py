# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: centre
import functools
import torch
import torch.nn as nn
import torch.nn.functional as F


@functools.lru_cache(maxsize=8)
def cell_centres(h, w, stride, device="cpu"):
    ys = (torch.arange(h, device=device) + 0.5) * stride
    xs = (torch.arange(w, device=device) + 0.5) * stride
    gy, gx = torch.meshgrid(ys, xs, indexing="ij")
    return torch.stack([gx, gy], -1).reshape(-1, 2)


class Head(nn.Module):
    def __init__(self, c, stride):
        super().__init__()
        self.stride = stride
        self.cls, self.reg = nn.Conv2d(c, 1, 1), nn.Conv2d(c, 4, 1)

    def forward(self, f):
        ltrb = F.softplus(self.reg(f)).flatten(2).transpose(1, 2) * self.stride
        centre = cell_centres(*f.shape[-2:], self.stride)
        boxes = torch.cat([centre - ltrb[..., :2], centre + ltrb[..., 2:]], -1)
        return self.cls(f).flatten(1), boxes


class Fcos(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.p3 = nn.Sequential(nn.Conv2d(3, c, 3, 2, 1), nn.ReLU(), nn.Conv2d(c, c, 3, 2, 1), nn.ReLU())
        self.p4 = nn.Sequential(nn.Conv2d(c, c, 3, 2, 1), nn.ReLU())
        self.heads = nn.ModuleList([Head(c, 4), Head(c, 8)])

    def forward(self, img):
        f3 = self.p3(img)
        outs = [h(f) for h, f in zip(self.heads, (f3, self.p4(f3)))]
        return torch.cat([o[0] for o in outs], 1), torch.cat([o[1] for o in outs], 1)


def objective(scores, boxes, gt):
    dist = (boxes - gt[:, None]).abs().mean(-1)
    target = (dist <= dist.amin(1, keepdim=True) + 4).float()
    return F.binary_cross_entropy_with_logits(scores, target) + 0.01 * (dist * target).sum() / target.sum()


def scene(n, size=32):
    xy = torch.randint(0, size // 2, (n, 2)).float()
    return torch.rand(n, 3, size, size), torch.cat([xy, xy + size // 3], 1)


def main(device):
    net = Fcos().to(device)
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for i in range(3):
        img, gt = (t.to(device) for t in scene(4))
        loss = objective(*net(img), gt)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(i, loss.item())


main("cuda")
