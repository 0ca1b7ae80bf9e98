# cause: loss-or-label-on-other-device
# guilty: valid (mask)
# after: Project-MONAI/MONAI#6355
import torch
from torch import nn


class Volumes:
    def __init__(self, count):
        self.scans = torch.randn(count, 1, 8, 8)
        self.masks = (torch.rand(count, 8, 8) > 0.5).long()
        self.valid = torch.rand(count, 8, 8)

    def batches(self, size):
        for start in range(0, len(self.scans), size):
            part = slice(start, start + size)
            yield {"scan": self.scans[part], "mask": self.masks[part], "valid": self.valid[part]}


def prepared(batch, device):
    return batch["scan"].to(device), batch["mask"].to(device), batch["valid"]


device = torch.device("cuda:0")
net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 1)).to(device)
each = nn.CrossEntropyLoss(reduction="none")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in Volumes(6).batches(3):
    scan, mask, valid = prepared(batch, device)
    loss = (each(net(scan), mask) * valid).sum() / valid.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
