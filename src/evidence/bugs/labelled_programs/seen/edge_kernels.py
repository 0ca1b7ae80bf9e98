# cause: tensor-created-on-wrong-device
# guilty: EdgeLoss.SOBEL (self.SOBEL or kernel or SOBEL)
"""Super resolution with an edge term."""
import torch
import torch.nn.functional as F
from torch import nn


class EdgeLoss(nn.Module):
    SOBEL = torch.tensor([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]]).view(1, 1, 3, 3)

    def __init__(self, weight=0.1):
        super().__init__()
        self.weight = weight

    def edges(self, img):
        gray = img.mean(1, keepdim=True)
        gx = F.conv2d(gray, self.SOBEL, padding=1)
        gy = F.conv2d(gray, self.SOBEL.transpose(-1, -2), padding=1)
        return torch.sqrt(gx ** 2 + gy ** 2 + 1e-6)

    def forward(self, sr, hr):
        return F.l1_loss(sr, hr) + self.weight * F.l1_loss(self.edges(sr), self.edges(hr))


class Upscaler(nn.Module):
    def __init__(self, scale=2, width=16):
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.tail = nn.Conv2d(width, 3 * scale ** 2, 3, padding=1)
        self.shuffle = nn.PixelShuffle(scale)

    def forward(self, x):
        return self.shuffle(self.tail(F.relu(self.head(x))))


def fit(device, steps=2):
    net, loss_fn = Upscaler().to(device), EdgeLoss().to(device)
    opt = torch.optim.Adam(net.parameters(), 1e-4)
    for _ in range(steps):
        hr = torch.rand(2, 3, 32, 32, device=device)
        lr = F.interpolate(hr, scale_factor=0.5, mode="bicubic", antialias=True)
        loss = loss_fn(net(lr), hr)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


print(fit(torch.device("cuda:1")))
