# cause: tensor-created-on-wrong-device
# guilty: lam
"""Fine-grained bird classification with mixup, one lambda for each sample."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Beta


class Mixup:
    def __init__(self, alpha, num_classes, smoothing=0.1):
        self.beta = Beta(torch.tensor(alpha), torch.tensor(alpha))
        self.num_classes = num_classes
        self.smoothing = smoothing

    def one_hot(self, y):
        off = self.smoothing / self.num_classes
        return torch.full((len(y), self.num_classes), off, device=y.device).scatter_(1, y[:, None], 1 - self.smoothing + off)

    def __call__(self, x, y):
        lam = self.beta.sample((len(x),))
        perm = torch.randperm(len(x), device=x.device)
        y = self.one_hot(y)
        mixed = lam.view(-1, 1, 1, 1) * x + (1 - lam).view(-1, 1, 1, 1) * x[perm]
        return mixed, lam.view(-1, 1) * y + (1 - lam).view(-1, 1) * y[perm]


def soft_ce(logits, target):
    return -(target * F.log_softmax(logits, -1)).sum(-1).mean()


class Net(nn.Module):
    def __init__(self, classes=20):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 7, 4, 3)
        self.block = nn.Sequential(nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU())
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        return self.head(self.block(self.stem(x)).mean((2, 3)))


def main(gpu="cuda:1"):
    net, mix = Net().to(gpu), Mixup(0.8, 20)
    opt = torch.optim.AdamW(net.parameters())
    for _ in range(2):
        x, y = torch.randn(6, 3, 64, 64).to(gpu), torch.randint(0, 20, (6,)).to(gpu)
        x, t = mix(x, y)
        loss = soft_ce(net(x), t)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
