# cause: data-parallel-replica-device|tensor-created-on-wrong-device
# guilty: coords (self.coords)
"""Keypoint regression with coordinate channels, batch split over both GPUs."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CoordNet(nn.Module):
    def __init__(self, size, points, device):
        super().__init__()
        axis = torch.linspace(-1, 1, size, device=device)
        yy, xx = torch.meshgrid(axis, axis, indexing="ij")
        self.coords = torch.stack([xx, yy]).unsqueeze(0)
        self.stem = nn.Conv2d(3 + 2, 16, 3, padding=1)
        self.bn = nn.BatchNorm2d(16)
        self.heat = nn.Conv2d(16, points, 1)

    def forward(self, image):
        coords = self.coords.expand(image.size(0), -1, -1, -1)
        x = torch.cat([image, coords], dim=1)
        x = F.relu(self.bn(self.stem(x)))
        heat = self.heat(x).flatten(2).softmax(-1)
        grid = self.coords.flatten(2)
        return torch.einsum("bpn,con->bpo", heat, grid)


def synthetic(batch, size, points, device):
    image = torch.randn(batch, 3, size, size, device=device)
    target = torch.rand(batch, points, 2, device=device) * 2 - 1
    return image, target


def main():
    torch.manual_seed(4)
    device = torch.device("cuda:0")
    size, points = 16, 5
    net = CoordNet(size, points, device).to(device)
    net = nn.DataParallel(net, device_ids=[0, 1])
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(4):
        image, target = synthetic(8, size, points, device)
        pred = net(image)
        loss = F.smooth_l1_loss(pred, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
