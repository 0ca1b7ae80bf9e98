# cause: block-split-across-devices
# guilty: s1
import torch
import torch.nn as nn


def double(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU(),
                         nn.Conv2d(o, o, 3, padding=1), nn.GroupNorm(4, o), nn.SiLU())


class BigUNet(nn.Module):
    def __init__(self, first, second, c=16):
        super().__init__()
        self.first, self.second = first, second
        self.d1 = double(3, c).to(first)
        self.d2 = double(c, 2 * c).to(first)
        self.mid = double(2 * c, 4 * c).to(second)
        self.u2 = double(6 * c, 2 * c).to(second)
        self.u1 = double(3 * c, c).to(second)
        self.final = nn.Conv2d(c, 3, 1).to(second)
        self.pool = nn.MaxPool2d(2)
        self.grow = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, x):
        s1 = self.d1(x.to(self.first))
        s2 = self.d2(self.pool(s1))
        h = self.mid(self.pool(s2).to(self.second))
        h = self.u2(torch.cat([self.grow(h), s2.to(self.second)], 1))
        h = self.u1(torch.cat([self.grow(h), s1], 1))
        return self.final(h)


net = BigUNet("cuda:0", "cuda:1")
opt = torch.optim.AdamW(net.parameters(), lr=2e-4)
for i in range(2):
    clean = torch.rand(2, 3, 32, 32)
    noisy = clean + 0.2 * torch.randn_like(clean)
    pred = net(noisy)
    loss = nn.functional.mse_loss(pred, clean.to(pred.device))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, loss.item())
