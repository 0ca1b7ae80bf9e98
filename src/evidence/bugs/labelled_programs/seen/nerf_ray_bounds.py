# cause: tensor-created-on-wrong-device
# guilty: low (high, high - low, bounds)
# line: 20
# repair: make the depths on the rays' device: bounds=None in stratified_depths and bounds = torch.linspace(2.0, 6.0, 17, device=origins.device) inside OR call stratified_depths(origins, bounds=...to(device)) from Renderer.render
"""A small radiance field, fine network on the second card."""
import torch
import torch.nn.functional as F
from torch import nn


def encode(x, bands=4):
    scaled = torch.cat([x * 2 ** i for i in range(bands)], dim=-1)
    return torch.cat([x, scaled.sin(), scaled.cos()], dim=-1)


def stratified_depths(origins, jitter=True, bounds=torch.linspace(2.0, 6.0, 17)):
    """One depth from every bin between the bounds, for each ray."""
    low, high = bounds[:-1], bounds[1:]
    share = torch.rand(len(origins), len(low), device=origins.device) if jitter else 0.5
    return low + (high - low) * share


def composite(rgb, density, depths):
    gaps = torch.cat([depths[:, 1:] - depths[:, :-1], torch.full_like(depths[:, :1], 0.25)], dim=1)
    alpha = 1 - torch.exp(-F.relu(density) * gaps)
    clear = torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha[:, :-1] + 1e-10], dim=1).cumprod(1)
    weights = alpha * clear
    return (weights.unsqueeze(-1) * rgb).sum(1), weights


class Field(nn.Module):
    def __init__(self, width, device):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(27, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                 nn.Linear(width, 4))
        self.device = torch.device(device)
        self.to(self.device)

    def forward(self, points):
        out = self.net(encode(points.to(self.device)))
        return out[..., :3].sigmoid(), out[..., 3]


class Renderer(nn.Module):
    def __init__(self, coarse_device, fine_device):
        super().__init__()
        self.coarse = Field(16, coarse_device)
        self.fine = Field(48, fine_device)

    def render(self, field, origins, directions, jitter):
        origins, directions = origins.to(field.device), directions.to(field.device)
        depths = stratified_depths(origins, jitter)
        points = origins[:, None] + directions[:, None] * depths[..., None]
        rgb, density = field(points)
        return composite(rgb, density, depths)[0]

    def forward(self, origins, directions):
        return (self.render(self.coarse, origins, directions, True),
                self.render(self.fine, origins, directions, True))


def rays(count):
    origins = torch.randn(count, 3) * 0.1
    return origins, F.normalize(torch.randn(count, 3), dim=-1), torch.rand(count, 3)


def fit(steps):
    renderer = Renderer("cuda:0", "cuda:1")
    optimizer = torch.optim.Adam(renderer.parameters(), lr=5e-4)
    for step in range(steps):
        origins, directions, colours = rays(64)
        coarse, fine = renderer(origins, directions)
        loss = F.mse_loss(coarse, colours.to(coarse.device))
        loss = loss + F.mse_loss(fine, colours.to(fine.device)).to(loss.device)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    fit(3)
