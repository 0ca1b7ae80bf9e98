# cause: block-split-across-devices
# guilty: s1
import torch
import torch.nn as nn


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.SiLU())


class SplitUNet(nn.Module):
    def __init__(self, c=4):
        super().__init__()
        self.down1 = block(1, c)
        self.down2 = block(c, 2 * c)
        self.mid = block(2 * c, 2 * c)
        self.up2 = block(4 * c, c)
        self.up1 = block(2 * c, c)
        self.out = nn.Conv2d(c, 1, 1)
        self.pool = nn.MaxPool2d(2)
        self.grow = nn.Upsample(scale_factor=2)

    def parallelize(self, first="cuda:0", second="cuda:1"):
        for m in (self.down1, self.down2):
            m.to(first)
        for m in (self.mid, self.up2, self.up1, self.out):
            m.to(second)
        self.second = second
        return self

    def forward(self, x):
        s1 = self.down1(x)
        s2 = self.down2(self.pool(s1))
        h = self.mid(self.pool(s2).to(self.second))
        s2 = s2.to(self.second)
        h = self.up2(torch.cat([self.grow(h), s2], 1))
        h = self.up1(torch.cat([self.grow(h), s1], 1))
        return self.out(h)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = SplitUNet().parallelize()
    opt = torch.optim.NAdam(net.parameters(), 1e-3)
    for _ in range(2):
        x = torch.rand(2, 1, 16, 16, device="cuda:0")
        loss = nn.functional.binary_cross_entropy_with_logits(net(x), (x > 0.5).float().to("cuda:1"))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(loss.item())
