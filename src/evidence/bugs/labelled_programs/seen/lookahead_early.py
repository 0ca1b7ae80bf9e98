# cause: optimizer-built-before-move|optimizer-state-on-other-device
# guilty: slow (state["slow"])
# after: kozistr/pytorch_optimizer#306
import torch
from torch import nn


class Lookahead:
    def __init__(self, inner, k=2, alpha=0.5):
        self.inner, self.k, self.alpha, self.count = inner, k, alpha, 0
        self.slow = {p: p.detach().clone() for g in inner.param_groups for p in g["params"]}

    def zero_grad(self):
        self.inner.zero_grad()

    @torch.no_grad()
    def step(self):
        self.inner.step()
        self.count += 1
        if self.count % self.k:
            return
        for p, slow in self.slow.items():
            slow.add_(p - slow, alpha=self.alpha)
            p.copy_(slow)


net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
optimizer = Lookahead(torch.optim.Adam(net.parameters(), lr=0.01))
net.cuda()
for _ in range(4):
    loss = net(torch.randn(8, 6).cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
