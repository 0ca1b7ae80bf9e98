# cause: embedding-streams-on-different-devices|block-split-across-devices
# guilty: side
"""Volume segmentation: contracting path on one GPU, expanding path on the other."""
import argparse

import torch
from torch import nn


def conv(a, b):
    return nn.Sequential(nn.Conv3d(a, b, 3, padding=1), nn.InstanceNorm3d(b), nn.LeakyReLU(0.01))


class Contract(nn.Module):
    def __init__(self, widths):
        super().__init__()
        ins = [1] + list(widths[:-1])
        self.stages = nn.ModuleList(conv(a, b) for a, b in zip(ins, widths))
        self.pool = nn.MaxPool3d(2)

    def forward(self, x):
        kept = []
        for stage in self.stages[:-1]:
            x = stage(x)
            kept.append(x)
            x = self.pool(x)
        return self.stages[-1](x), kept


class Expand(nn.Module):
    def __init__(self, widths, classes):
        super().__init__()
        pairs = list(zip(widths[:0:-1], widths[-2::-1]))
        self.ups = nn.ModuleList(nn.ConvTranspose3d(a, b, 2, stride=2) for a, b in pairs)
        self.fuse = nn.ModuleList(conv(2 * b, b) for _, b in pairs)
        self.last = nn.Conv3d(widths[0], classes, 1)

    def forward(self, x, kept):
        for up, fuse, side in zip(self.ups, self.fuse, reversed(kept)):
            x = up(x)
            x = fuse(torch.cat([x, side], dim=1))
        return self.last(x)


class SplitUNet(nn.Module):
    def __init__(self, widths=(4, 8, 12), classes=3, gpus=(0, 1)):
        super().__init__()
        self.front, self.rear = (torch.device(f"cuda:{g}") for g in gpus)
        self.contract = Contract(widths).to(self.front)
        self.expand = Expand(widths, classes).to(self.rear)

    def forward(self, x):
        x, kept = self.contract(x.to(self.front))
        return self.expand(x.to(self.rear), kept)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--iters", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(26)
    net = SplitUNet()
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.99, nesterov=True)
    for i in range(args.iters):
        volume = torch.randn(2, 1, args.size, args.size, args.size)
        labels = torch.randint(3, (2, args.size, args.size, args.size)).to(net.rear)
        loss = nn.functional.cross_entropy(net(volume), labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"iter {i}: {loss.item():.4f}")
