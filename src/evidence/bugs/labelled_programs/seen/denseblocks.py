# cause: module-left-on-other-device
# guilty: lin.weight (lin or self.grow)
import torch
from torch import nn


class Dense(nn.Module):
    def __init__(self, width=4, depth=3):
        super().__init__()
        self.first = nn.Linear(6, width)
        self.grow = [nn.Linear(width * (i + 1), width) for i in range(depth)]
        self.last = nn.Linear(width * (depth + 1), 2)

    def forward(self, x):
        feats = [self.first(x)]
        for lin in self.grow:
            feats.append(lin(torch.cat(feats, -1)).relu())
        return self.last(torch.cat(feats, -1))


class DeviceMixin:
    @property
    def device(self):
        return next(self.parameters()).device


class Model(DeviceMixin, Dense):
    def step(self, x, y):
        return nn.functional.cross_entropy(self(x.to(self.device)), y.to(self.device))


torch.manual_seed(0)
m = Model().to("cuda:0")
opt = torch.optim.SGD(m.parameters(), 0.1)
for _ in range(3):
    loss = m.step(torch.randn(10, 6), torch.randint(0, 2, (10,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
