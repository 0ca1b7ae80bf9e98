# cause: embedding-streams-on-different-devices
# guilty: self.camera(images) (cam)
# line: 82
# repair: in Branch.__init__ test for None: self.out_card = in_card if out_card is None else out_card (card number 0 counts as "not given" with `or`), so the camera features arrive on card 0
"""Plan a short trajectory from lidar and camera features that are fused in bird's-eye view."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def card(number):
    return torch.device(f"cuda:{number}")


class Branch(nn.Module):
    """Runs a network on one card and delivers the result on the card where it is needed."""

    def __init__(self, net, in_card, out_card=None):
        super().__init__()
        self.in_card = in_card
        self.out_card = out_card or in_card
        self.net = net.to(card(in_card))

    def forward(self, *inputs):
        out = self.net(*(x.to(card(self.in_card)) for x in inputs))
        return out.to(card(self.out_card))


class PillarNet(nn.Module):
    """Scatter point features into a grid, then convolve."""

    def __init__(self, grid=16, dim=16):
        super().__init__()
        self.grid, self.dim = grid, dim
        self.point = nn.Sequential(nn.Linear(4, dim), nn.ReLU())
        self.conv = nn.Conv2d(dim, dim, 3, padding=1)

    def forward(self, points):
        b = points.shape[0]
        cell = ((points[..., :2] + 1) / 2 * self.grid).long().clamp(0, self.grid - 1)
        index = cell[..., 0] * self.grid + cell[..., 1]
        flat = points.new_zeros(b, self.grid ** 2, self.dim)
        flat = flat.scatter_add(1, index[..., None].expand(-1, -1, self.dim), self.point(points))
        return F.relu(self.conv(flat.transpose(1, 2).reshape(b, self.dim, self.grid, self.grid)))


class LiftNet(nn.Module):
    """Camera features, pooled over height and spread along the depth bins."""

    def __init__(self, grid=16, dim=16):
        super().__init__()
        self.grid, self.dim = grid, dim
        self.stem = nn.Conv2d(3, dim, 5, stride=2, padding=2)
        self.depth = nn.Conv1d(dim, grid, 1)

    def forward(self, images):
        columns = F.relu(self.stem(images)).mean(2)
        columns = F.interpolate(columns, size=self.grid)
        depth = self.depth(columns).softmax(1)
        return columns[:, :, None] * depth[:, None]


class Planner(nn.Module):
    def __init__(self, dim=32, horizon=6):
        super().__init__()
        self.horizon = horizon
        self.fuse = nn.Sequential(nn.Conv2d(dim, 24, 3, stride=2, padding=1), nn.ReLU())
        self.path = nn.Linear(24, 2 * horizon)

    def forward(self, bev):
        return self.path(self.fuse(bev).mean((2, 3))).view(-1, self.horizon, 2).cumsum(1)


class DrivingModel(nn.Module):
    def __init__(self, layout):
        super().__init__()
        self.lidar = Branch(PillarNet(), layout["lidar"], layout["fusion"])
        self.camera = Branch(LiftNet(), layout["camera"], layout["fusion"])
        self.planner = Branch(Planner(), layout["fusion"])

    def forward(self, points, images):
        bev = torch.cat([self.lidar(points), self.camera(images)], dim=1)
        return self.planner(bev)


class Drives(torch.utils.data.Dataset):
    def __init__(self, size=12):
        g = torch.Generator().manual_seed(9)
        self.points = torch.rand(size, 200, 4, generator=g) * 2 - 1
        self.images = torch.rand(size, 3, 24, 48, generator=g)
        self.paths = torch.randn(size, 6, 2, generator=g).cumsum(1) * 0.1

    def __len__(self):
        return len(self.points)

    def __getitem__(self, i):
        return self.points[i], self.images[i], self.paths[i]


def main():
    torch.manual_seed(0)
    model = DrivingModel({"lidar": 0, "camera": 1, "fusion": 0})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(Drives(), batch_size=4, shuffle=True)
    for epoch in range(2):
        for points, images, paths in loader:
            path = model(points, images)
            loss = F.smooth_l1_loss(path, paths.to(path.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, round(loss.item(), 4))


if __name__ == "__main__":
    main()
