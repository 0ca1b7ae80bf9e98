# cause: generator-or-default-device|generator-on-other-device
# guilty: self.gen
import argparse

import torch
import torch.nn as nn


class SeededDropout(nn.Module):
    """Dropout whose masks can be reproduced."""

    def __init__(self, p, seed):
        super().__init__()
        self.p = p
        self.gen = torch.Generator()
        self.gen.manual_seed(seed)

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        keep = torch.rand(x.shape, generator=self.gen, device=x.device) >= self.p
        return x * keep / (1 - self.p)


class Net(nn.Module):
    def __init__(self, width, seed):
        super().__init__()
        self.l1 = nn.Linear(6, width)
        self.drop = SeededDropout(0.2, seed)
        self.l2 = nn.Linear(width, 1)

    def forward(self, x):
        return self.l2(self.drop(torch.relu(self.l1(x))))


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--device", default="cuda:1")
    ap.add_argument("--width", type=int, default=24)
    ap.add_argument("--seed", type=int, default=13)
    return ap.parse_args()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    loader_gen = torch.Generator().manual_seed(args.seed)
    x = torch.randn(64, 6)
    y = (x ** 2).sum(1, keepdim=True)
    net = Net(args.width, args.seed).to(args.device)
    opt = torch.optim.NAdam(net.parameters(), lr=5e-3)
    for epoch in range(2):
        order = torch.randperm(len(x), generator=loader_gen)
        running = 0.0
        for idx in order.split(16):
            xb, yb = x[idx].to(args.device), y[idx].to(args.device)
            loss = nn.functional.huber_loss(net(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
        print(epoch, running)


main()
