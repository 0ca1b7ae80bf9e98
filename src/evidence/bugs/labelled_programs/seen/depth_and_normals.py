# cause: hard-coded-device|loss-or-label-on-other-device|tensor-created-on-wrong-device
# guilty: kernel
"""Depth on the first card, surface normals on the second, both with an edge-aware loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICES = ("cuda:0", "cuda:1")
SOBEL = torch.tensor([[[[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]]]])


def edge_map(image, kernel=SOBEL.to(DEVICES[0])):
    flat = image.flatten(0, 1).unsqueeze(1)
    dx = F.conv2d(flat, kernel, padding=1)
    dy = F.conv2d(flat, kernel.transpose(2, 3), padding=1)
    return (dx.abs() + dy.abs()).view_as(image)


def gradient_loss(pred, target):
    return F.l1_loss(pred, target) + 0.5 * F.l1_loss(edge_map(pred), edge_map(target))


class Trunk(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(),
                                 nn.Conv2d(width, width, 3, padding=1), nn.ReLU())

    def forward(self, x):
        return self.net(x)


class Head(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, out, 1))

    def forward(self, x):
        return self.net(x)


class DepthAndNormals(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.trunk = Trunk(width).to(DEVICES[0])
        self.depth = Head(width, 1).to(DEVICES[0])
        self.normals = Head(width, 3).to(DEVICES[1])

    def forward(self, images):
        shared = self.trunk(images.to(DEVICES[0]))
        return self.depth(shared), F.normalize(self.normals(shared.to(DEVICES[1])), dim=1)


def scenes(n, size=16):
    for _ in range(n):
        depth = torch.rand(2, 1, size, size).cumsum(2)
        normals = F.normalize(torch.randn(2, 3, size, size), dim=1)
        yield torch.rand(2, 3, size, size) + depth / size, depth, normals


def main():
    torch.manual_seed(0)
    model = DepthAndNormals()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (images, depth, normals) in enumerate(scenes(4)):
        pred_depth, pred_normals = model(images)
        loss = gradient_loss(pred_depth, depth.to(pred_depth.device))
        other = gradient_loss(pred_normals, normals.to(pred_normals.device))
        optimizer.zero_grad()
        (loss + other.to(loss.device)).backward()
        optimizer.step()
        print(step, loss.item(), other.item())


if __name__ == "__main__":
    main()
