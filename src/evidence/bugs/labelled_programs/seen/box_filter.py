# cause: tensor-created-on-wrong-device
# guilty: labels
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, c=16, classes=3):
        super().__init__()
        self.cls = nn.Conv2d(c, classes, 1)
        self.reg = nn.Conv2d(c, 4, 1)

    def forward(self, f):
        b = f.size(0)
        scores = self.cls(f).sigmoid().flatten(2).transpose(1, 2)
        boxes = self.reg(f).view(b, 4, -1).transpose(1, 2)
        return boxes, scores


def post_process(boxes, scores, top=10):
    """One image: boxes [A, 4], scores [A, C] -> the best (box, score, id) triples."""
    a, c = scores.shape
    labels = torch.arange(c).repeat(a)
    flat = scores.reshape(-1)
    boxes = boxes.repeat_interleave(c, 0)
    best, keep = flat.topk(top)
    return {"boxes": boxes[keep], "scores": best, "labels": labels[keep]}


device = torch.device("cuda:0")
backbone = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU()).to(device).eval()
head = Head().to(device).eval()

with torch.inference_mode():
    images = torch.rand(2, 3, 16, 16, device=device)
    boxes, scores = head(backbone(images))
    found = [post_process(b, s) for b, s in zip(boxes, scores)]
for i, f in enumerate(found):
    print(i, f["scores"].max().item(), f["labels"].tolist())
