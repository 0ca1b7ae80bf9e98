# cause: adapter-weights-on-other-device
# guilty: self.down
import torch
from torch import nn


class LowRank(nn.Module):
    def __init__(self, base, r, where):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(r, base.in_features, device=where) * 0.01)
        self.up = nn.Parameter(torch.zeros(base.out_features, r, device=where))

    def forward(self, x):
        y = self.base(x)
        low = x @ self.down.t()
        return y + low @ self.up.t()


class Stage(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q = nn.Linear(d, d)
        self.o = nn.Linear(d, d)

    def forward(self, x):
        return x + self.o(torch.tanh(self.q(x)))


class Net(nn.Module):
    def __init__(self, d=16):
        super().__init__()
        self.first = Stage(d).to("cuda:0")
        self.second = Stage(d).to("cuda:1")

    def forward(self, x):
        x = self.first(x.to("cuda:0"))
        return self.second(x.to("cuda:1"))


net = Net()
main = next(net.parameters()).device
for stage in (net.first, net.second):
    stage.q = LowRank(stage.q, 4, main)

opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-3)
for _ in range(3):
    out = net(torch.randn(8, 16))
    out.pow(2).mean().backward()
    opt.step()
    opt.zero_grad()
