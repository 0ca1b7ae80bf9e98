# cause: module-left-on-other-device
import copy

import torch
from torch import nn


class Follower:
    def __init__(self, net):
        self.net = copy.deepcopy(net)

    def follow(self, leader):
        with torch.no_grad():
            for own, other in zip(self.net.parameters(), leader.parameters()):
                own.mul_(0.9).add_(other, alpha=0.1)


class Run:
    def __init__(self, device):
        self.net = nn.Linear(4, 2)
        self.follower = Follower(self.net)
        self.net.to(device)


run = Run(torch.device("cuda:0"))
run.follower.follow(run.net)
print(run.follower.net(torch.ones(1, 4, device="cuda:0")))
