# cause: block-split-across-devices
# guilty: shortcut
"""按参数量把网络平均切到两张卡（naive pipeline）。"""
import torch
import torch.nn as nn


class Bottleneck(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.reduce = nn.Conv2d(c, c // 2, 1)
        self.conv = nn.Conv2d(c // 2, c // 2, 3, padding=1)
        self.expand = nn.Conv2d(c // 2, c, 1)
        self.act = nn.ReLU()

    def forward(self, x):
        shortcut = x
        y = self.act(self.reduce(x))
        y = self.act(self.conv(y))
        y = self.expand(y)
        return self.act(y + shortcut)


class Net(nn.Module):
    def __init__(self, c=16, depth=3):
        super().__init__()
        self.stem = nn.Conv2d(3, c, 3, padding=1)
        self.body = nn.Sequential(*[Bottleneck(c) for _ in range(depth)])
        self.head = nn.Linear(c, 4)

    def forward(self, x):
        x = self.body(self.stem(x))
        return self.head(x.mean((2, 3)))


def leaves(model):
    return [m for m in model.modules() if not list(m.children()) and list(m.parameters())]


def follow(module, args):
    dev = next(module.parameters()).device
    return tuple(a.to(dev) for a in args)


def split_evenly(model, devices):
    parts = leaves(model)
    total = sum(p.numel() for p in model.parameters())
    done = 0
    for m in parts:
        share = sum(p.numel() for p in m.parameters())
        m.to(devices[min(int(done / total * len(devices)), len(devices) - 1)])
        m.register_forward_pre_hook(follow)       # 输入跟着权重走
        done += share
    return model


def main():
    torch.manual_seed(0)
    model = split_evenly(Net(), ["cuda:0", "cuda:1"])
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(2):
        x = torch.randn(4, 3, 8, 8, device="cuda:0")
        y = torch.randint(0, 4, (4,), device="cuda:1")
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


main()
