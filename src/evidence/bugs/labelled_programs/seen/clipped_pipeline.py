# cause: optimizer-state-on-other-device|block-split-across-devices|loss-or-label-on-other-device
# guilty: ?
# after: pytorch/pytorch#38605
import torch
from torch import nn


class Pipeline(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(10, 20).to("cuda:0")
        self.second = nn.Linear(20, 3).to("cuda:1")

    def forward(self, x):
        return self.second(self.first(x.to("cuda:0")).relu().to("cuda:1"))


@torch.no_grad()
def clip_(parameters, most):
    grads = [p.grad for p in parameters if p.grad is not None]
    total = torch.stack([g.norm() for g in grads]).norm()
    factor = float(most / (total + 1e-6))
    if factor < 1:
        for g in grads:
            g.mul_(factor)
    return total


net = Pipeline()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = nn.functional.cross_entropy(net(torch.randn(6, 10)), torch.randint(0, 3, (6,), device="cuda:1"))
    optimizer.zero_grad()
    loss.backward()
    clip_(net.parameters(), 1.0)
    optimizer.step()
