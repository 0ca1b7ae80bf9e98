# cause: optimizer-built-before-move|optimizer-state-on-other-device
# guilty: anchor (self.anchors[i])
# after: kozistr/pytorch_optimizer#306
import torch
from torch import nn


class Anchored(torch.optim.SGD):
    """Plain descent that pulls each weight back to where it began."""

    def __init__(self, params, lr, pull):
        super().__init__(params, lr=lr)
        self.pull = pull
        self.anchors = [p.data.clone() for group in self.param_groups for p in group["params"]]

    @torch.no_grad()
    def step(self):
        super().step()
        every = [p for group in self.param_groups for p in group["params"]]
        for p, anchor in zip(every, self.anchors):
            p.mul_(1 - self.pull).add_(anchor, alpha=self.pull)


net = nn.Sequential(nn.Linear(4, 10), nn.Tanh(), nn.Linear(10, 1))
optimizer = Anchored(net.parameters(), 0.1, 0.01)
device = torch.device("cuda:0")
net.to(device)
for _ in range(3):
    x = torch.randn(16, 4, device=device)
    loss = (net(x) - x.sum(-1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
