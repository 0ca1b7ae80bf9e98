# cause: extra-input-on-wrong-device
# guilty: whwh
import torch
import torch.nn as nn


class MiniDETR(nn.Module):
    def __init__(self, queries=6, dim=24, classes=5):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 8, 8)
        self.query = nn.Parameter(torch.randn(queries, dim))
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.box = nn.Linear(dim, 4)
        self.cls = nn.Linear(dim, classes + 1)

    def forward(self, pixels):
        memory = self.patch(pixels).flatten(2).transpose(1, 2)
        q = self.query.expand(pixels.size(0), -1, -1)
        h, _ = self.attn(q, memory, memory, need_weights=False)
        return self.cls(h), self.box(h).sigmoid()


def to_absolute(boxes, sizes):
    cx, cy, w, h = boxes.unbind(-1)
    xyxy = torch.stack([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], dim=-1)
    whwh = sizes.flip(-1).repeat(1, 2)[:, None, :]
    return xyxy.mul(whwh)


@torch.no_grad()
def predict(model, pixels, sizes, keep=0.1):
    logits, boxes = model(pixels)
    prob, label = logits.softmax(-1)[..., :-1].max(-1)
    boxes = to_absolute(boxes, sizes)
    return [(b[p > keep], l[p > keep]) for b, l, p in zip(boxes, label, prob)]


torch.manual_seed(0)
gpu = "cuda:1"
net = MiniDETR().eval().to(gpu)
inputs = {"pixel_values": torch.rand(2, 3, 64, 64), "original_sizes": torch.tensor([[480.0, 640.0], [333.0, 500.0]])}
for boxes, labels in predict(net, inputs["pixel_values"].to(gpu), inputs["original_sizes"]):
    print(boxes.shape, labels.tolist())
