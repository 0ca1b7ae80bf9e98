# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: anchors (self._cache[key] or self.cached[key])
# after: pytorch/vision#1255
import torch
from torch import nn


class Anchors:
    def __init__(self, sizes):
        self.sizes, self.cached = sizes, {}

    def __call__(self, feature):
        key = tuple(feature.shape[-2:])
        if key not in self.cached:
            ys, xs = (torch.arange(n, device=feature.device) for n in key)
            centre = torch.stack(torch.meshgrid(ys, xs, indexing="ij"), -1).reshape(-1, 1, 2)
            half = torch.tensor(self.sizes, device=feature.device).view(1, -1, 1)
            self.cached[key] = torch.cat([centre - half, centre + half], -1).reshape(-1, 4)
        return self.cached[key]


class Detector(nn.Module):
    def __init__(self, anchors):
        super().__init__()
        self.body, self.head, self.anchors = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 1), anchors

    def forward(self, image):
        feature = self.body(image)
        anchors = self.anchors(feature)
        deltas = self.head(feature).permute(0, 2, 3, 1).reshape(image.shape[0], -1, 4)
        return anchors + deltas


shared = Anchors([1.0, 2.0])
detectors = [Detector(shared).to(f"cuda:{n}") for n in (0, 1)]
for n, detector in enumerate(detectors):
    print(detector(torch.randn(1, 3, 8, 8, device=f"cuda:{n}")).shape)
