# cause: loss-or-label-on-other-device
# guilty: self.alpha
"""Segment cracks in concrete with a balanced focal loss."""
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class LossConfig:
    gamma: float = 2.0
    frequencies: dict = field(default_factory=lambda: {"sound": 0.9, "hairline": 0.07, "open": 0.03})

    def balance(self):
        inverse = 1.0 / torch.tensor(list(self.frequencies.values()))
        return inverse / inverse.sum()


class FocalLoss:
    def __init__(self, config):
        self.gamma = torch.tensor(config.gamma)
        self.alpha = config.balance()

    def __call__(self, logits, target):
        logp = F.log_softmax(logits, dim=1)
        logp = logp.gather(1, target[:, None]).squeeze(1)
        modulation = (1 - logp.exp()) ** self.gamma
        weight = self.alpha[target]
        return -(weight * modulation * logp).sum() / weight.sum()


class TinyUNet(nn.Module):
    def __init__(self, classes, width=8):
        super().__init__()
        self.enter = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.leave = nn.Conv2d(2 * width, classes, 1)

    def forward(self, x):
        a = torch.relu(self.enter(x))
        b = torch.relu(self.up(torch.relu(self.down(a))))
        return self.leave(torch.cat([a, b], dim=1))


def run(device, steps=3):
    config = LossConfig()
    net = TinyUNet(len(config.frequencies)).to(device)
    criterion = FocalLoss(config)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(steps):
        photo = torch.rand(2, 1, 16, 16).to(device, non_blocking=True)
        target = (photo[:, 0] * 3).long().clamp(max=2)
        loss = criterion(net(photo), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    print(run(torch.device("cuda:1")))
