# cause: input-not-on-embedding-device|extra-input-on-wrong-device
# guilty: self.default_x (x or condition)
# after: sbi-dev/sbi#1368
import torch
from torch import nn


class Posterior:
    def __init__(self, net):
        self.net, self.default_x = net, None

    def set_default_x(self, x):
        self.default_x = x
        return self

    def sample(self, count, x=None):
        x = self.default_x if x is None else x
        mean = self.net(x.expand(count, -1))
        return mean + torch.randn_like(mean)


def train(net, theta, x):
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(3):
        loss = (net(x) - theta).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


theta = torch.randn(40, 2)
x = torch.cat([theta, theta.square()], 1)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)).to("cuda:0")
train(net, theta.to("cuda:0"), x.to("cuda:0"))
posterior = Posterior(net).set_default_x(x[:1])
print(posterior.sample(5).mean().item())
