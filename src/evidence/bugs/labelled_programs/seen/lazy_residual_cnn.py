# cause: module-left-on-other-device
# guilty: self.shortcut (self.shortcut(x))
"""小型残差网络，CIFAR 大小的随机图片；带梯度累积。"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ResidualBlock(nn.Module):
    """输入通道数不固定，第一次前向时再决定是否需要 1x1 卷积。"""

    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.stride = stride
        self.cout = cout
        self.conv1 = nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.shortcut = None

    def forward(self, x):
        if self.shortcut is None:
            if self.stride != 1 or x.size(1) != self.cout:
                self.shortcut = nn.Conv2d(x.size(1), self.cout, 1, stride=self.stride, bias=False)
            else:
                self.shortcut = nn.Identity()
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class ResNetSmall(nn.Module):
    def __init__(self, widths=(16, 32, 64), classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, widths[0], 3, padding=1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU())
        blocks, cin = [], widths[0]
        for i, width in enumerate(widths):
            blocks.append(ResidualBlock(cin, width, stride=1 if i == 0 else 2))
            blocks.append(ResidualBlock(width, width))
            cin = width
        self.blocks = nn.Sequential(*blocks)
        self.fc = nn.Linear(cin, classes)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def train(model, device, steps=4, accumulate=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2], gamma=0.1)
    model.train()
    optimizer.zero_grad()
    for step in range(steps):
        images = torch.randn(8, 3, 32, 32, device=device)
        target = torch.randint(0, 10, (8,), device=device)
        loss = F.cross_entropy(model(images), target) / accumulate
        loss.backward()
        if (step + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
        print(f"step {step} loss {loss.item() * accumulate:.3f} lr {scheduler.get_last_lr()[0]}")


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    model = ResNetSmall().to(device)
    print(sum(p.numel() for p in model.parameters()), "parameters")
    train(model, device)


if __name__ == "__main__":
    main()
