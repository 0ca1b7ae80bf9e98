# cause: loss-or-label-on-other-device|embedding-streams-on-different-devices
# guilty: b (second, zb)
# line: 33
# repair: in ViewTrainer.step gather the second view before the loss: zb = self.towers[1](v2.to(...)).to(za.device) OR in CrossCorrelation.forward use b.to(a.device)
"""Redundancy-reduction pre-training with one copy of the encoder per view and card."""
import copy
import torch
from torch import nn


class Projector(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
                                  nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.out = nn.Linear(16, width)

    def forward(self, x):
        return self.out(self.body(x))


class CrossCorrelation(nn.Module):
    def __init__(self, off=5e-3):
        super().__init__()
        self.off = off

    @staticmethod
    def whiten(z):
        return (z - z.mean(0)) / (z.std(0) + 1e-5)

    def forward(self, first, second):
        a, b = self.whiten(first), self.whiten(second)
        c = a.T @ b / a.shape[0]
        on = (torch.diagonal(c) - 1).pow(2).sum()
        rest = c.pow(2).sum() - torch.diagonal(c).pow(2).sum()
        return on + self.off * rest


class ViewTrainer:
    def __init__(self, cards=("cuda:0", "cuda:1"), lr=1e-3):
        self.cards = cards
        main = Projector()
        self.towers = [main.to(cards[0]), copy.deepcopy(main).to(cards[1])]
        self.loss = CrossCorrelation()
        self.opt = torch.optim.SGD([p for t in self.towers for p in t.parameters()], lr=lr)

    def average_gradients(self):
        for p, q in zip(self.towers[0].parameters(), self.towers[1].parameters()):
            g = (p.grad + q.grad.to(p.device)) / 2
            p.grad.copy_(g)
            q.grad.copy_(g)

    def step(self, v1, v2):
        za = self.towers[0](v1.to(self.cards[0]))
        zb = self.towers[1](v2.to(self.cards[1]))
        loss = self.loss(za, zb)
        self.opt.zero_grad()
        loss.backward()
        self.average_gradients()
        self.opt.step()
        return loss.item()


def augment(x):
    return x.flip(-1) if torch.rand(()) < 0.5 else x + 0.1 * torch.randn_like(x)


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = ViewTrainer()
    for epoch in range(3):
        images = torch.randn(16, 3, 16, 16)
        print(epoch, trainer.step(augment(images), augment(images)))
