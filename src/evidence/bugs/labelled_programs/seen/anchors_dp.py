# cause: data-parallel-replica-device
# guilty: self.anchors
"""One-stage detector trained with both cards through DataParallel."""
import torch
import torch.nn.functional as F
from torch import nn


def grid_anchors(size, stride, scales):
    centres = (torch.arange(size) + 0.5) * stride
    cy, cx = torch.meshgrid(centres, centres, indexing="ij")
    boxes = [torch.stack([cx, cy, torch.full_like(cx, s), torch.full_like(cy, s)], -1) for s in scales]
    return torch.stack(boxes, 2).reshape(-1, 4)


class Detector(nn.Module):
    def __init__(self, classes=3, scales=(8.0, 16.0)):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
        )
        self.cls = nn.Conv2d(16, classes * len(scales), 1)
        self.reg = nn.Conv2d(16, 4 * len(scales), 1)
        self.classes = classes
        self.register_buffer("pixel_mean", torch.tensor([0.48, 0.46, 0.41]).view(3, 1, 1))
        self.anchors = grid_anchors(8, 4, scales)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self.anchors = fn(self.anchors)
        return self

    def forward(self, images):
        feats = self.backbone(images - self.pixel_mean)
        b = images.size(0)
        logits = self.cls(feats).permute(0, 2, 3, 1).reshape(b, -1, self.classes)
        deltas = self.reg(feats).permute(0, 2, 3, 1).reshape(b, -1, 4)
        centres = deltas[..., :2] * 0.1 + self.anchors[:, :2]
        sizes = deltas[..., 2:].exp().clamp(max=10) * self.anchors[:, 2:]
        return logits, torch.cat([centres, sizes], -1)


def main():
    torch.manual_seed(0)
    net = nn.DataParallel(Detector().to("cuda:0"), device_ids=[0, 1])
    opt = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(2):
        images = torch.rand(4, 3, 32, 32).to("cuda:0")
        boxes = torch.rand(4, 128, 4, device="cuda:0") * 32
        labels = torch.randint(0, 3, (4, 128), device="cuda:0")
        logits, pred = net(images)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten()) + F.l1_loss(pred, boxes)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
