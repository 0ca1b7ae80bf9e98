# cause: tensor-created-on-wrong-device
# guilty: points_range
# after: open-mmlab/mmdetection#10026
import torch
from torch import nn


def assign(points_per_level, boxes):
    """The points of the level that fits each box."""
    levels = [torch.full((len(p),), k) for k, p in enumerate(points_per_level)]
    points = torch.cat(points_per_level)
    points_level = torch.cat(levels)
    points_range = torch.arange(points.shape[0])
    side = (boxes[:, 2:] - boxes[:, :2]).clamp(min=1e-6).prod(-1).sqrt()
    wanted = side.log2().clamp(0, len(points_per_level) - 1).long()
    found = []
    for box, level in zip(boxes, wanted.tolist()):
        at = (points_level == level).to(points.device)
        middle = (box[:2] + box[2:]) / 2
        near = (points[at] - middle).norm(dim=-1).topk(1, largest=False).indices
        found.append(points_range[at][near])
    return torch.cat(found)


device = "cuda:1"
grid = [torch.rand(n, 2, device=device) * 8 for n in (16, 4)]
boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 6.0, 6.0]], device=device)
scores = nn.Linear(2, 1).to(device)(torch.cat(grid))
print(scores[assign(grid, boxes)])
