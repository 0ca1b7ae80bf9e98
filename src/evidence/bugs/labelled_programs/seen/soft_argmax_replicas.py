# cause: data-parallel-replica-device|tensor-created-on-wrong-device
# guilty: self.xs (self.ys)
# line: 19
# repair: make the coordinate grid move with each replica: register xs and ys as buffers of KeypointNet (or make PixelGrid an nn.Module) OR in PixelGrid.expectation use self.xs.to(heat.device) and self.ys.to(heat.device)
"""Hand keypoints from heat maps with a soft arg-max, trained with one replica per card."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PixelGrid:
    """Normalised pixel coordinates of a square map, laid out once."""

    def __init__(self, size, device):
        line = torch.linspace(-1, 1, size, device=device)
        self.ys, self.xs = torch.meshgrid(line, line, indexing="ij")

    def expectation(self, heat):
        x = (heat * self.xs).sum(dim=(-2, -1))
        y = (heat * self.ys).sum(dim=(-2, -1))
        return torch.stack([x, y], dim=-1)


class KeypointNet(nn.Module):
    def __init__(self, joints=21, size=32, device="cuda:0"):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(16, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU())
        self.heat = nn.Conv2d(24, joints, 1)
        self.beta = nn.Parameter(torch.tensor(1.0))
        self.grid = PixelGrid(size, device)
        self.to(device)

    def forward(self, images):
        maps = self.heat(self.body(self.stem(images)))
        b, j, h, w = maps.shape
        heat = (maps.flatten(2) * self.beta).softmax(-1).view(b, j, h, w)
        return self.grid.expectation(heat), heat


class HandPhotos(torch.utils.data.Dataset):
    def __init__(self, size=24, joints=21):
        g = torch.Generator().manual_seed(1)
        self.images = torch.randn(size, 3, 32, 32, generator=g)
        self.joints = torch.rand(size, joints, 2, generator=g) * 2 - 1

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.joints[i]


def spread_penalty(heat):
    return heat.flatten(2).pow(2).sum(-1).mean()


class Trainer:
    def __init__(self, net, cards, lr=1e-3):
        self.root = torch.device("cuda", cards[0])
        self.net = nn.DataParallel(net, device_ids=cards)
        self.optimizer = torch.optim.AdamW(net.parameters(), lr=lr)

    def check_single(self, image):
        """One picture through the bare network, to see that shapes agree."""
        with torch.no_grad():
            points, _ = self.net.module.eval()(image[None].to(self.root))
        return tuple(points.shape)

    def epoch(self, loader):
        self.net.train()
        total = 0.0
        for images, joints in loader:
            points, heat = self.net(images.to(self.root))
            loss = F.mse_loss(points, joints.to(points.device)) - 0.01 * spread_penalty(heat)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(loader)


def main():
    torch.manual_seed(0)
    data = HandPhotos()
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    trainer = Trainer(KeypointNet(device="cuda:0"), cards=[0, 1])
    print("points", trainer.check_single(data[0][0]))
    for epoch in range(2):
        print(epoch, round(trainer.epoch(loader), 4))


if __name__ == "__main__":
    main()
