# cause: data-parallel-replica-device
# guilty: chunks (self.kept, self.kept[name])
# line: 36
# repair: in Collector.hook keep the output on one card: self.kept[name].append(output.detach().to("cuda:0")) (or .cpu()) OR in Collector.stacked cat the moved chunks [c.to(chunks[0].device) for c in chunks]
"""Collect penultimate features of a leaf-disease classifier that is replicated over two cards."""
from collections import defaultdict

import torch
from torch import nn


class LeafNet(nn.Module):
    def __init__(self, classes=7):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, 1), nn.ReLU(),
                                      nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.neck = nn.Linear(24, 16)
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.neck(self.features(x)).relu())


class Collector:
    def __init__(self, model, names):
        self.kept = defaultdict(list)
        self.handles = [dict(model.named_modules())[n].register_forward_hook(self.hook(n)) for n in names]

    def hook(self, name):
        def keep(module, args, output):
            self.kept[name].append(output.detach())
        return keep

    def stacked(self, name):
        chunks = self.kept[name]
        return torch.cat(chunks, dim=0)

    def close(self):
        for handle in self.handles:
            handle.remove()


def covariance(feats):
    centred = feats - feats.mean(0)
    return centred.T @ centred / (feats.shape[0] - 1)


class NoveltyDetector:
    def __init__(self, model, layer="neck"):
        self.parallel = nn.DataParallel(model, device_ids=[0, 1]).eval()
        self.layer = layer

    @torch.no_grad()
    def fit(self, batches):
        collector = Collector(self.parallel.module, [self.layer])
        for x in batches:
            self.parallel(x.to("cuda:0"))
        feats = collector.stacked(self.layer)
        collector.close()
        self.mean = feats.mean(0)
        eye = torch.eye(feats.shape[1], device=feats.device)
        self.precision = torch.linalg.inv(covariance(feats) + 1e-3 * eye)
        return feats.shape


if __name__ == "__main__":
    torch.manual_seed(0)
    detector = NoveltyDetector(LeafNet().to("cuda:0"))
    print(detector.fit([torch.randn(8, 3, 32, 32) for _ in range(4)]))
