# cause: extra-input-on-wrong-device
# guilty: scale
import torch
from torch import nn

torch.manual_seed(14)


class Finder(nn.Module):
    def __init__(self, slots=6, dim=16, kinds=4):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, dim, 4, stride=4), nn.ReLU())
        self.slots = nn.Parameter(torch.randn(slots, dim))
        self.kind, self.box = nn.Linear(dim, kinds + 1), nn.Linear(dim, 4)

    def forward(self, images):
        seen = self.stem(images).flatten(2).transpose(1, 2)
        look = (self.slots @ seen.transpose(1, 2)).softmax(-1) @ seen
        return self.kind(look), self.box(look).sigmoid()


def collate(samples):
    images = torch.stack([s["image"] for s in samples])
    sizes = torch.tensor([s["orig"] for s in samples], dtype=torch.float32)
    return {"images": images, "sizes": sizes}


def to_pixels(kinds, boxes, sizes, floor=0.1):
    prob, name = kinds.softmax(-1)[..., :-1].max(-1)
    cx, cy, w, h = boxes.unbind(-1)
    boxes = torch.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], -1)
    high, wide = sizes.unbind(1)
    scale = torch.stack([wide, high, wide, high], dim=1)
    boxes = boxes * scale[:, None, :]
    return [{"prob": p[p > floor], "name": n[p > floor], "box": b[p > floor]}
            for p, n, b in zip(prob, name, boxes)]


device = "cuda:1"
finder = Finder().to(device).eval()
batch = collate([{"image": torch.rand(3, 16, 16), "orig": (480, 640)},
                 {"image": torch.rand(3, 16, 16), "orig": (300, 200)}])
with torch.no_grad():
    kinds, boxes = finder(batch["images"].to(device))
    for found in to_pixels(kinds, boxes, batch["sizes"]):
        print(found["name"].tolist(), found["box"].round().tolist())
