# cause: numpy-of-gpu-tensor
# guilty: cost
"""Greedy multi-object tracking with appearance features."""
import numpy as np
import torch
from torch import nn


class Embedder(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                                 nn.Flatten(), nn.Linear(8, dim))

    def forward(self, crops):
        return nn.functional.normalize(self.net(crops), dim=-1)


def greedy_match(cost, limit):
    order = np.argsort(cost, axis=None)
    taken_rows, taken_cols, pairs = set(), set(), []
    for flat in order:
        r, c = divmod(int(flat), cost.shape[1])
        if r in taken_rows or c in taken_cols or float(cost[r, c]) > limit:
            continue
        taken_rows.add(r)
        taken_cols.add(c)
        pairs.append((r, c))
    return pairs


class Tracker:
    def __init__(self, model, momentum=0.8, limit=1.2):
        self.model, self.momentum, self.limit = model, momentum, limit
        self.device = next(model.parameters()).device
        self.gallery = torch.empty(0, 8, device=self.device)
        self.paths = []

    @torch.no_grad()
    def step(self, crops, boxes):
        features = self.model(crops.to(self.device))
        centres = boxes.view(-1, 2, 2).mean(1).numpy()
        if len(self.gallery):
            cost = torch.cdist(self.gallery, features)
            matches = greedy_match(cost, self.limit)
        else:
            matches = []
        seen = {c for _, c in matches}
        for track, det in matches:
            blend = self.momentum * self.gallery[track] + (1 - self.momentum) * features[det]
            self.gallery[track] = blend
            self.paths[track].append(centres[det])
        for det in range(len(features)):
            if det not in seen:
                self.gallery = torch.cat([self.gallery, features[det:det + 1]])
                self.paths.append([centres[det]])


def video(frames=4, objects=3):
    for _ in range(frames):
        yield torch.rand(objects, 3, 12, 12), torch.rand(objects, 4)


if __name__ == "__main__":
    torch.manual_seed(0)
    tracker = Tracker(Embedder().to("cuda:0").eval())
    for crops, boxes in video():
        tracker.step(crops, boxes)
    print([np.stack(p).shape for p in tracker.paths])
