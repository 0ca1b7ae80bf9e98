# cause: block-split-across-devices
# guilty: identity
"""Cut a small ResNet in two halves of equal parameter count."""
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)

    def forward(self, x):
        identity = x
        out = torch.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        return torch.relu(out + identity)


def make_net(width=12, depth=4, classes=5):
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1),
        *[Residual(width) for _ in range(depth)],
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(width, classes),
    )


def follow_weights(device):
    def hook(_module, args):
        return tuple(a.to(device) for a in args)
    return hook


def split_evenly(net, devices):
    leaves = [m for m in net.modules() if not list(m.children())]
    total = sum(p.numel() for m in leaves for p in m.parameters())
    budget, used, slot = total / len(devices), 0, 0
    for leaf in leaves:
        size = sum(p.numel() for p in leaf.parameters())
        if used + size > budget * (slot + 1) and slot + 1 < len(devices):
            slot += 1
        used += size
        leaf.to(devices[slot])
        leaf.register_forward_pre_hook(follow_weights(devices[slot]))
    return net


def main():
    torch.manual_seed(0)
    devices = [torch.device("cuda:0"), torch.device("cuda:1")]
    net = split_evenly(make_net(), devices)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2):
        images = torch.randn(4, 3, 16, 16)
        target = torch.randint(0, 5, (4,))
        logits = net(images.to(devices[0]))
        loss = nn.functional.cross_entropy(logits, target.to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
