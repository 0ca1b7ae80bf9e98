# cause: weights-moved-away-by-manager|optimizer-state-on-other-device|module-left-on-other-device
# guilty: old
# after: lucidrains/DALLE2-pytorch#87
import copy

import torch
from torch import nn


class Trainer:
    def __init__(self, net):
        self.net, self.average = net, copy.deepcopy(net)
        self.optimizer = torch.optim.Adam(net.parameters())

    @torch.no_grad()
    def sample(self, count):
        self.average.cuda()
        drawn = self.average(torch.randn(count, 6, device="cuda"))
        self.average.cpu()
        return drawn

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()
        for mean, now in zip(self.average.parameters(), self.net.parameters()):
            old, new = mean.data, now.data
            mean.data = old * 0.99 + new * 0.01

    def loss(self, x):
        return (self.net(x) - x).square().mean()


trainer = Trainer(nn.Sequential(nn.Linear(6, 12), nn.SiLU(), nn.Linear(12, 6)).cuda())
for step in range(3):
    trainer.loss(torch.randn(8, 6).cuda()).backward()
    trainer.update()
    if step == 1:
        print(trainer.sample(2).shape)
