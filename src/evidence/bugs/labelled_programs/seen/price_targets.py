# cause: loss-or-label-on-other-device
# guilty: truth
import torch
from torch import nn

net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 1)).to("cuda:0")
rule = torch.optim.SGD(net.parameters(), lr=0.1)


def batches(count):
    for _ in range(count):
        x = torch.rand(16, 5)
        yield x, x.sum(1, keepdim=True)


def step(x, truth):
    guess = net(x.to("cuda:0"))
    error = (guess - truth).abs()
    cost = torch.where(error < 1, 0.5 * error.pow(2), error - 0.5).mean()
    rule.zero_grad()
    cost.backward()
    rule.step()
    return cost.item()


for x, truth in batches(3):
    print(step(x, truth))
