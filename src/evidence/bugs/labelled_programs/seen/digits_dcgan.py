# cause: loss-or-label-on-other-device
# guilty: real
"""A very small DCGAN on synthetic digit-like blobs."""
import torch
import torch.nn as nn

CONFIG = dict(z=16, batch=16, iters=4, lr=2e-4, gpu="cuda:0")


class Generator(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(z, 32, 4), nn.BatchNorm2d(32), nn.ReLU(),
            nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.net(z[:, :, None, None])


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(16, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 1, 4))

    def forward(self, x):
        return self.net(x).flatten(1)


def blobs(n):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
    c = torch.rand(n, 2, 1, 1) - 0.5
    return torch.exp(-((xx - c[:, :1]) ** 2 + (yy - c[:, 1:]) ** 2) * 8) * 2 - 1


def init(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)


def main(cfg):
    torch.manual_seed(1)
    gpu = torch.device(cfg["gpu"])
    gen = Generator(cfg["z"]).apply(init).to(gpu)
    dis = Discriminator().apply(init).to(gpu)
    og = torch.optim.Adam(gen.parameters(), cfg["lr"], (0.5, 0.999))
    od = torch.optim.Adam(dis.parameters(), cfg["lr"], (0.5, 0.999))
    bce = nn.BCEWithLogitsLoss().to(gpu)
    fixed = torch.randn(4, cfg["z"], device=gpu)
    real = torch.full((cfg["batch"], 1), 0.9)
    fake = torch.zeros(cfg["batch"], 1)
    for it in range(cfg["iters"]):
        x = blobs(cfg["batch"]).to(gpu)
        g = gen(torch.randn(cfg["batch"], cfg["z"], device=gpu))
        d_loss = bce(dis(x), real) + bce(dis(g.detach()), fake)
        od.zero_grad()
        d_loss.backward()
        od.step()
        g_loss = bce(dis(g), real)
        og.zero_grad()
        g_loss.backward()
        og.step()
        print(it, d_loss.item(), g_loss.item())
    with torch.no_grad():
        print(gen(fixed).mean().cpu())


main(CONFIG)
