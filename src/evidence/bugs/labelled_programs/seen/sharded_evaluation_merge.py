# cause: metric-state-device
# guilty: other.table (shard.table, others)
# line: 35
# repair: in ConfusionTable.merge add the other state where this one is, `self.table += other.table.to(self.table.device)` OR bring each shard's metric to the host at the end of Worker.run
"""Evaluate a segmenter with one replica on each GPU and merge the tables of the shards."""
import copy

import torch
import torch.nn as nn


class Metric:
    def __init__(self, device):
        self.device = torch.device(device)

    def reset(self):
        raise NotImplementedError


class ConfusionTable(Metric):
    def __init__(self, classes, device):
        super().__init__(device)
        self.classes = classes
        self.reset()

    def reset(self):
        self.table = torch.zeros(self.classes, self.classes, dtype=torch.long, device=self.device)

    def update(self, pred, target):
        index = target.flatten() * self.classes + pred.flatten()
        self.table += torch.bincount(index, minlength=self.classes ** 2).view_as(self.table)

    def merge(self, others):
        for other in others:
            self.table += other.table
        return self

    def iou(self):
        hit = self.table.diagonal().float()
        return hit / (self.table.sum(0) + self.table.sum(1) - hit).clamp(min=1)


class Segmenter(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
                                 nn.Conv2d(16, classes, 1))

    def forward(self, x):
        return self.net(x)


class Worker:
    def __init__(self, model, device, classes):
        self.device = torch.device(device)
        self.model = copy.deepcopy(model).to(self.device).eval()
        self.metric = ConfusionTable(classes, self.device)

    @torch.no_grad()
    def run(self, batches):
        for images, masks in batches:
            pred = self.model(images.to(self.device)).argmax(1)
            self.metric.update(pred, masks.to(self.device))
        return self.metric


class ShardedEvaluator:
    def __init__(self, model, devices, classes):
        self.workers = [Worker(model, d, classes) for d in devices]

    def evaluate(self, batches):
        shards = [worker.run(batches[i::len(self.workers)]) for i, worker in enumerate(self.workers)]
        return shards[0].merge(shards[1:]).iou()


def tiles(n, classes, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        masks = torch.randint(0, classes, (2, 16, 16), generator=g)
        yield torch.rand(2, 3, 16, 16, generator=g) + masks.unsqueeze(1) / classes, masks


if __name__ == "__main__":
    torch.manual_seed(0)
    evaluator = ShardedEvaluator(Segmenter(4), ["cuda:0", "cuda:1"], classes=4)
    print("iou per class:", evaluator.evaluate(list(tiles(6, 4))).tolist())
