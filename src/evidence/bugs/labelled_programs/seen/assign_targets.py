# cause: tensor-created-on-wrong-device
# guilty: level
"""Dynamic label assignment for a two-level, one-stage detector."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TwoLevel(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.c1 = nn.Conv2d(3, 8, 3, stride=4, padding=1)
        self.c2 = nn.Conv2d(8, 8, 3, stride=2, padding=1)
        self.heads = nn.ModuleList(nn.Conv2d(8, 5 + classes, 1) for _ in range(2))

    def forward(self, image):
        a = F.relu(self.c1(image))
        b = F.relu(self.c2(a))
        return [h(f).flatten(2).transpose(1, 2) for h, f in zip(self.heads, (a, b))]


def centers(size, stride, device):
    axis = (torch.arange(size // stride, device=device) + 0.5) * stride
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    return torch.stack([xx, yy], -1).reshape(-1, 2)


class Assigner:
    strides = (4, 8)

    def __init__(self, size, radius=6.0):
        self.size, self.radius = size, radius

    def __call__(self, outputs, boxes, labels):
        points, level = [], []
        for i, stride in enumerate(self.strides):
            p = centers(self.size, stride, boxes.device)
            points.append(p)
            level.append(torch.ones(len(p), dtype=torch.long) * i)
        points, level = torch.cat(points), torch.cat(level)
        middle = (boxes[:, :2] + boxes[:, 2:]) / 2
        distance = torch.cdist(points, middle)
        nearest = distance.argmin(1)
        chosen = distance.amin(1) < self.radius
        chosen_level = level[chosen]
        share = [(chosen_level == i).sum().item() for i in range(len(outputs))]
        return chosen, labels[nearest], share


def loss_of(outputs, boxes, labels, assign):
    total, shares = 0.0, []
    flat = torch.cat(outputs, dim=1)
    for pred, bx, lb in zip(flat, boxes, labels):
        chosen, wanted, share = assign(outputs, bx, lb)
        total = total + F.binary_cross_entropy_with_logits(pred[:, 4], chosen.float())
        total = total + F.cross_entropy(pred[chosen, 5:], wanted[chosen])
        shares.append(share)
    return total / len(flat), shares


def main():
    torch.manual_seed(34)
    device, size = torch.device("cuda:0"), 32
    net = TwoLevel().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    assign = Assigner(size)
    for step in range(3):
        image = torch.randn(2, 3, size, size, device=device)
        corner = torch.rand(2, 3, 2, device=device) * 16
        boxes = torch.cat([corner, corner + 12], dim=-1)
        labels = torch.randint(3, (2, 3), device=device)
        loss, shares = loss_of(net(image), boxes, labels, assign)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4), shares)


if __name__ == "__main__":
    main()
