# cause: block-split-across-devices|embedding-streams-on-different-devices
# guilty: e1
import torch
import torch.nn as nn


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class UNet2GPU(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.enc1 = block(3, 16).to("cuda:0")
        self.enc2 = block(16, 32).to("cuda:0")
        self.mid = block(32, 32).to("cuda:1")
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2).to("cuda:1")
        self.dec = block(32, 16).to("cuda:1")
        self.out = nn.Conv2d(16, classes, 1).to("cuda:1")
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        e1 = self.enc1(x.to("cuda:0"))
        e2 = self.enc2(self.pool(e1))
        m = self.mid(e2.to("cuda:1"))
        u = self.up(m)
        d = self.dec(torch.cat([u, e1], dim=1))
        return self.out(d)


def dice(logits, mask):
    p = logits.softmax(1)
    onehot = nn.functional.one_hot(mask, p.size(1)).permute(0, 3, 1, 2)
    inter = (p * onehot).sum((2, 3))
    return 1 - (2 * inter / (p.sum((2, 3)) + onehot.sum((2, 3)) + 1e-6)).mean()


net = UNet2GPU()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for it in range(3):
    img = torch.randn(2, 3, 32, 32)
    mask = torch.randint(0, 3, (2, 32, 32)).to("cuda:1")
    loss = dice(net(img), mask)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item())
