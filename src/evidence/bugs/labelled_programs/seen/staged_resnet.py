# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: ?
"""Split a residual network over two cards by counting parameters."""
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(ch)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(ch)

    def forward(self, x):
        identity = x
        out = self.bn1(self.conv1(x)).relu()
        out = self.bn2(self.conv2(out))
        return (out + identity).relu()


class Net(nn.Module):
    def __init__(self, ch=16, depth=3, classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, ch, 3, padding=1)
        self.body = nn.Sequential(*[Residual(ch) for _ in range(depth)])
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(ch, classes)

    def forward(self, x):
        return self.fc(self.pool(self.body(self.stem(x))).flatten(1))


def follow(device):
    def hook(module, args):
        return tuple(a.to(device) for a in args)
    return hook


def place(model, devices):
    leaves = [(n, m) for n, m in model.named_modules() if next(m.children(), None) is None]
    sizes = [sum(p.numel() for p in m.parameters()) for _, m in leaves]
    total, used = sum(sizes), 0
    table = {}
    for (name, leaf), size in zip(leaves, sizes):
        stage = min(int(used * len(devices) / total), len(devices) - 1)
        leaf.to(devices[stage])
        leaf.register_forward_pre_hook(follow(devices[stage]))
        table[name] = devices[stage]
        used += size
    return table


if __name__ == "__main__":
    torch.manual_seed(0)
    devices = ["cuda:0", "cuda:1"]
    net = Net()
    for name, where in place(net, devices).items():
        print(f"{name:20s} {where}")
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for step in range(4):
        x = torch.randn(8, 3, 16, 16, device=devices[0])
        y = torch.randint(0, 10, (8,), device=devices[-1])
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())
