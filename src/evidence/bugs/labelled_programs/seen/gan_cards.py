# cause: input-not-on-embedding-device|module-left-on-other-device
# guilty: fake (fake.detach())
import torch
import torch.nn as nn

netG = nn.Sequential(
    nn.ConvTranspose2d(16, 32, 4), nn.BatchNorm2d(32), nn.ReLU(),
    nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
    nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh(),
).to("cuda:0")
netD = nn.Sequential(
    nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2),
    nn.Conv2d(16, 32, 4, 2, 1), nn.LeakyReLU(0.2),
    nn.Conv2d(32, 1, 4),
).to("cuda:1")
optG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
optD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
bce = nn.BCEWithLogitsLoss()


def d_loss(real, fake):
    pred_real = netD(real)
    pred_fake = netD(fake.detach())
    return bce(pred_real, torch.ones_like(pred_real)) + bce(pred_fake, torch.zeros_like(pred_fake))


def g_loss(fake):
    pred = netD(fake)
    return bce(pred, torch.ones_like(pred))


torch.manual_seed(0)
for it in range(4):
    real = torch.rand(8, 1, 16, 16).mul(2).sub(1).to("cuda:1")
    fake = netG(torch.randn(8, 16, 1, 1, device="cuda:0"))
    loss_d = d_loss(real, fake)
    optD.zero_grad()
    loss_d.backward()
    optD.step()
    loss_g = g_loss(fake)
    optG.zero_grad()
    loss_g.backward()
    optG.step()
    print(it, loss_d.item(), loss_g.item())
