# cause: loss-or-label-on-other-device|tensor-created-on-wrong-device
# guilty: box_terms
"""Solar panel finder on aerial tiles: one anchor point per cell, some tiles have no panels."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TileDetector(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride=2, padding=1), nn.ReLU(),
        )
        self.score = nn.Conv2d(width, 1, 1)
        self.delta = nn.Conv2d(width, 4, 1)

    def forward(self, img):
        f = self.body(img)
        score = self.score(f).flatten(1)
        delta = self.delta(f).flatten(2).transpose(1, 2)
        return score, delta


def grid_centers(size, stride, like):
    axis = torch.arange(0, size, stride, device=like.device, dtype=like.dtype) + stride / 2
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    return torch.stack([xx.flatten(), yy.flatten()], dim=1)


def detection_loss(scores, deltas, centers, targets):
    score_terms, box_terms = [], []
    for score, delta, boxes in zip(scores, deltas, targets):
        boxes = boxes.to(score.device)
        want = torch.zeros_like(score)
        if len(boxes) == 0:
            score_terms.append(F.binary_cross_entropy_with_logits(score, want))
            box_terms.append(torch.tensor(0.0))
            continue
        nearest = torch.cdist(centers, boxes[:, :2]).argmin(dim=0)
        want[nearest] = 1.0
        score_terms.append(F.binary_cross_entropy_with_logits(score, want))
        goal = torch.cat([boxes[:, :2] - centers[nearest], boxes[:, 2:].log()], dim=1)
        box_terms.append(F.smooth_l1_loss(delta[nearest], goal))
    score_loss = torch.stack(score_terms).mean()
    box_loss = torch.stack(box_terms).mean()
    return score_loss, box_loss


def fake_batch(counts):
    images = torch.rand(len(counts), 3, 32, 32)
    boxes = [torch.rand(n, 4) * 20 + 4 for n in counts]
    return images, boxes


if __name__ == "__main__":
    torch.manual_seed(3)
    device = torch.device("cuda:0")
    net = TileDetector().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    for counts in ([2, 1, 3], [1, 4, 2], [3, 0, 2]):
        images, boxes = fake_batch(counts)
        scores, deltas = net(images.to(device))
        cls, box = detection_loss(scores, deltas, grid_centers(32, 4, scores), boxes)
        opt.zero_grad()
        (cls + box).backward()
        opt.step()
        print(counts, round(cls.item(), 4), round(box.item(), 4))
