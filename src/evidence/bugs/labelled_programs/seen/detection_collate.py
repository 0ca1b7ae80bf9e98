# cause: extra-input-on-wrong-device|loss-or-label-on-other-device
# guilty: gt[None, :, :2] (gt, t["boxes"])
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Scenes(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        n = 1 + i % 3
        lo = torch.rand(n, 2, generator=g) * 8
        wh = torch.rand(n, 2, generator=g) * 6 + 1
        boxes = torch.cat([lo, lo + wh], 1)
        return torch.rand(3, 16, 16, generator=g), {"boxes": boxes, "labels": torch.randint(0, 3, (n,), generator=g)}


def collate(items):
    images, targets = zip(*items)
    return {"images": torch.stack(images), "targets": list(targets)}


def to_device(batch, device):
    moved = {}
    for k, v in batch.items():
        if torch.is_tensor(v):
            v = v.to(device)
        elif isinstance(v, dict):
            v = to_device(v, device)
        moved[k] = v
    return moved


def iou(a, gt):
    lt = torch.maximum(a[:, None, :2], gt[None, :, :2])
    rb = torch.minimum(a[:, None, 2:], gt[None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    area = lambda b: (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    return inter / (area(a)[:, None] + area(gt)[None] - inter)


class Slots(nn.Module):
    def __init__(self, k=6):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 4, stride=4)
        self.box = nn.Linear(8 * 16, k * 4)
        self.cls = nn.Linear(8 * 16, k * 3)

    def forward(self, x):
        h = torch.relu(self.conv(x)).flatten(1)
        raw = self.box(h).view(len(x), -1, 4).sigmoid() * 16
        lo, hi = torch.minimum(raw[..., :2], raw[..., 2:]), torch.maximum(raw[..., :2], raw[..., 2:])
        return torch.cat([lo, hi], -1), self.cls(h).view(len(x), -1, 3)


def match_loss(boxes, logits, targets):
    total = boxes.new_zeros(())
    for b, c, t in zip(boxes, logits, targets):
        overlap, which = iou(b, t["boxes"]).max(dim=1)
        total = total - overlap.mean() + nn.functional.cross_entropy(c, t["labels"][which])
    return total / len(targets)


torch.manual_seed(0)
device = torch.device("cuda:1")
model = Slots().to(device)
opt = torch.optim.Adam(model.parameters(), 1e-3)
for batch in DataLoader(Scenes(), batch_size=4, collate_fn=collate):
    batch = to_device(batch, device)
    loss = match_loss(*model(batch["images"]), batch["targets"])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
