# cause: module-left-on-other-device
# guilty: slow
"""Semi-supervised digits: a smoothed copy of the network is evaluated after each round."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


def make_net():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 9, 10),
    )


@torch.no_grad()
def follow(average, net, decay):
    for slow, fast in zip(average.parameters(), net.parameters()):
        slow.lerp_(fast, 1.0 - decay)
    for slow, fast in zip(average.buffers(), net.buffers()):
        slow.copy_(fast)


def augment(x):
    shift = torch.randint(-1, 2, (2,)).tolist()
    return torch.roll(x, shift, dims=(2, 3)) + 0.05 * torch.randn_like(x)


def main(rounds=2, steps=4, device="cuda:0"):
    torch.manual_seed(8)
    net = make_net()
    average = copy.deepcopy(net).requires_grad_(False)
    net.to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9, nesterov=True)
    for r in range(rounds):
        for _ in range(steps):
            labelled = torch.rand(16, 1, 16, 16).to(device)
            y = torch.randint(10, (16,)).to(device)
            unlabelled = torch.rand(32, 1, 16, 16).to(device)
            with torch.no_grad():
                prob = net(unlabelled).softmax(dim=1)
                sure, fake = prob.max(dim=1)
            loss = F.cross_entropy(net(augment(labelled)), y)
            extra = F.cross_entropy(net(augment(unlabelled)), fake, reduction="none")
            loss = loss + (extra * (sure > 0.2)).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            follow(average, net, decay=0.99)
        average.eval()
        with torch.no_grad():
            probe = torch.rand(8, 1, 16, 16, device=device)
            print(r, loss.item(), average(probe).argmax(1).tolist())


if __name__ == "__main__":
    main()
