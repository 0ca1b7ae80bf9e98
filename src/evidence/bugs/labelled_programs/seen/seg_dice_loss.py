# cause: hard-coded-device|loss-or-label-on-other-device
# guilty: onehot
import torch
import torch.nn as nn
import torch.nn.functional as F


def soft_dice(logits, target, n_cls, eps=1.0):
    onehot = F.one_hot(target, n_cls).permute(0, 3, 1, 2).float().cuda()
    prob = logits.softmax(1)
    inter = (prob * onehot).sum((0, 2, 3))
    card = prob.sum((0, 2, 3)) + onehot.sum((0, 2, 3))
    return 1 - ((2 * inter + eps) / (card + eps)).mean()


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())


class Seg(nn.Module):
    def __init__(self, n_cls):
        super().__init__()
        self.down = nn.Sequential(block(1, 16), nn.MaxPool2d(2), block(16, 32))
        self.up = nn.Sequential(nn.Upsample(scale_factor=2), block(32, 16), nn.Conv2d(16, n_cls, 1))

    def forward(self, x):
        return self.up(self.down(x))


if __name__ == "__main__":
    device = torch.device("cuda", torch.cuda.device_count() - 1)
    net = Seg(4).to(device)
    optim = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for it in range(4):
        scan = torch.randn(2, 1, 32, 32, device=device)
        mask = torch.randint(0, 4, (2, 32, 32), device=device)
        logits = net(scan)
        loss = F.cross_entropy(logits, mask) + soft_dice(logits, mask, 4)
        optim.zero_grad()
        loss.backward()
        optim.step()
        print(it, float(loss))
