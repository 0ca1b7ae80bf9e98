# cause: module-left-on-other-device
# guilty: self.net (self.extractor or self.net.0.weight)
import torch
import torch.nn as nn


class Features(nn.Module):
    """frozen feature extractor for the perceptual term"""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        )
        for p in self.parameters():
            p.requires_grad_(False)

    def forward(self, x):
        return self.net(x)


class Upscaler(nn.Module):
    def __init__(self, r=2):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 32, 5, padding=2), nn.PReLU(), nn.Conv2d(32, 3 * r * r, 3, padding=1))
        self.shuffle = nn.PixelShuffle(r)

    def forward(self, lr):
        return self.shuffle(self.body(lr))


class SRLoss:
    def __init__(self, weight=0.1):
        self.weight = weight
        self.l1 = nn.L1Loss()
        self.extractor = Features().eval()

    def __call__(self, fake, real):
        a = self.extractor(fake)
        b = self.extractor(real)
        return self.l1(fake, real) + self.weight * self.l1(a, b)


device = torch.device("cuda:0")
G = Upscaler().to(device)
loss_fn = SRLoss()
optim = torch.optim.Adam(G.parameters(), lr=1e-4, betas=(0.9, 0.99))
for i in range(3):
    hr = torch.rand(2, 3, 32, 32)
    lr = nn.functional.avg_pool2d(hr, 2)
    hr, lr = hr.to(device), lr.to(device)
    loss = loss_fn(G(lr), hr)
    optim.zero_grad()
    loss.backward()
    optim.step()
    print(i, loss.item())
