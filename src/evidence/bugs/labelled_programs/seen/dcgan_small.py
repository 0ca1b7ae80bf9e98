# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: z (noise(real.size(0), o))
import torch
import torch.nn as nn
import torch.nn.functional as F


class Opt:
    nz, ngf, ndf = 8, 8, 8
    batch, iters = 4, 3
    gpu = 1


class Generator(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(o.nz, o.ngf * 2, 4), nn.BatchNorm2d(o.ngf * 2), nn.ReLU(True),
            nn.ConvTranspose2d(o.ngf * 2, o.ngf, 4, 2, 1), nn.BatchNorm2d(o.ngf), nn.ReLU(True),
            nn.ConvTranspose2d(o.ngf, 1, 4, 2, 1), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, o.ndf, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(o.ndf, o.ndf * 2, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(o.ndf * 2, 1, 4),
        )

    def forward(self, x):
        return self.net(x).flatten()


def noise(n, o):
    return torch.randn(n, o.nz, 1, 1).cuda()


def d_step(D, G, real, opt_d, o):
    fake = G(noise(real.size(0), o)).detach()
    out_real, out_fake = D(real), D(fake)
    loss = F.binary_cross_entropy_with_logits(out_real, torch.ones_like(out_real)) \
        + F.binary_cross_entropy_with_logits(out_fake, torch.zeros_like(out_fake))
    opt_d.zero_grad()
    loss.backward()
    opt_d.step()
    return loss.item()


def g_step(D, G, opt_g, o):
    out = D(G(noise(o.batch, o)))
    loss = F.binary_cross_entropy_with_logits(out, torch.ones_like(out))
    opt_g.zero_grad()
    loss.backward()
    opt_g.step()
    return loss.item()


def main(o=Opt):
    torch.manual_seed(0)
    dev = torch.device("cuda", o.gpu)
    G, D = Generator(o).to(dev), Discriminator(o).to(dev)
    opt_g = torch.optim.Adam(G.parameters(), 2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(D.parameters(), 2e-4, betas=(0.5, 0.999))
    for it in range(o.iters):
        real = torch.rand(o.batch, 1, 16, 16).to(dev) * 2 - 1
        print(it, d_step(D, G, real, opt_d, o), g_step(D, G, opt_g, o))


main()
