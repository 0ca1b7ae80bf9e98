# cause: quantized-state-on-other-device
# guilty: self.low
"""Quantisation-aware training: wrap the layers of a trained net and fine-tune it."""
import torch
from torch import nn
from torch.nn import functional as F


class RoundSTE(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class ChannelQuant(nn.Module):
    def __init__(self, channels, bits=8, momentum=0.1):
        super().__init__()
        self.levels, self.momentum = 2**bits - 1, momentum
        self.register_buffer("low", torch.zeros(channels))
        self.register_buffer("high", torch.ones(channels))

    def observe(self, x):
        low, high = x.detach().amin((0, 2, 3)), x.detach().amax((0, 2, 3))
        self.low.copy_(torch.lerp(self.low, low, self.momentum))
        self.high.copy_(torch.lerp(self.high, high, self.momentum))

    def forward(self, x):
        if self.training:
            self.observe(x)
        low = self.low.view(1, -1, 1, 1)
        step = ((self.high - self.low) / self.levels).clamp(min=1e-6).view(1, -1, 1, 1)
        q = RoundSTE.apply((x - low) / step).clamp(0, self.levels)
        return q * step + low


def prepare(net):
    for name, child in list(net.named_children()):
        if isinstance(child, nn.Conv2d):
            setattr(net, name, nn.Sequential(child, ChannelQuant(child.out_channels)))
        else:
            prepare(child)
    return net


def make_net(classes=4):
    return nn.Sequential(
        nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
        nn.Flatten(),
        nn.Linear(8, classes),
    )


def epoch(net, x, y, lr):
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    for xb, yb in zip(x.split(16), y.split(16)):
        loss = F.cross_entropy(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(31)
    device = torch.device("cuda")
    x = torch.randn(64, 1, 12, 12, device=device)
    y = torch.randint(4, (64,), device=device)
    net = make_net().to(device)
    print("float", epoch(net, x, y, 0.05))
    prepare(net).train()
    print("quantised", epoch(net, x, y, 0.005))
