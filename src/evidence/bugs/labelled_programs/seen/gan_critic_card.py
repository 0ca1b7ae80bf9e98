# cause: loss-or-label-on-other-device|tensor-created-on-wrong-device|hard-coded-device
# guilty: real_label (self.real_label or fake_label)
"""Generator on one card, discriminator on the other."""
import torch
from torch import nn


class G(nn.Module):
    def __init__(self, z):
        super().__init__()
        self.net = nn.Sequential(nn.ConvTranspose2d(z, 32, 4), nn.ReLU(), nn.ConvTranspose2d(32, 1, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.net(z)


class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 32, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(32, 1, 4))

    def forward(self, x):
        return self.net(x).view(-1)


class Duel:
    def __init__(self, batch=8, z=10):
        self.g_dev, self.d_dev = torch.device("cuda:0"), torch.device("cuda:1")
        self.G, self.D = G(z).to(self.g_dev), D().to(self.d_dev)
        self.crit = nn.BCEWithLogitsLoss()
        self.og = torch.optim.Adam(self.G.parameters(), 2e-4)
        self.od = torch.optim.Adam(self.D.parameters(), 2e-4)
        self.batch, self.z = batch, z
        self.real_label = torch.full((batch,), 0.9, device=self.g_dev)
        self.fake_label = torch.zeros(batch, device=self.g_dev)

    def noise(self):
        return torch.randn(self.batch, self.z, 1, 1, device=self.g_dev)

    def d_step(self, real):
        fake = self.G(self.noise()).detach()
        out_r, out_f = self.D(real.to(self.d_dev)), self.D(fake.to(self.d_dev))
        loss = self.crit(out_r, self.real_label) + self.crit(out_f, self.fake_label)
        self.od.zero_grad()
        loss.backward()
        self.od.step()

    def g_step(self):
        out = self.D(self.G(self.noise()).to(self.d_dev))
        loss = self.crit(out, self.real_label)
        self.og.zero_grad()
        loss.backward()
        self.og.step()


duel = Duel()
for _ in range(2):
    duel.d_step(torch.rand(8, 1, 8, 8) * 2 - 1)
    duel.g_step()
