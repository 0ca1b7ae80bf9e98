# cause: adapter-weights-on-other-device
# guilty: self.a (a)
import math
import torch
import torch.nn as nn


class LowRank(nn.Module):
    def __init__(self, base: nn.Linear, r=2, alpha=4):
        super().__init__()
        self.base = base
        for p in base.parameters():
            p.requires_grad_(False)
        self.scale = alpha / r
        self.a = nn.Parameter(torch.empty(r, base.in_features))
        self.b = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

    def forward(self, x):
        delta = nn.functional.linear(x, self.a)
        return self.base(x) + self.scale * nn.functional.linear(delta, self.b)


def inject(module, names):
    for key, child in list(module.named_children()):
        if isinstance(child, nn.Linear) and key in names:
            setattr(module, key, LowRank(child))
        else:
            inject(child, names)
    return module


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.v, self.o = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        w = (self.q(x) @ x.transpose(1, 2)).softmax(-1)
        return x + self.o(w @ self.v(x))


def main():
    torch.manual_seed(0)
    net = nn.Sequential(Block(8), Block(8)).to("cuda:0")
    inject(net, {"q", "v"})
    trainable = [p for p in net.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(trainable, 1e-2)
    x = torch.randn(2, 5, 8, device="cuda:0")
    for _ in range(3):
        loss = net(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(len(trainable), loss.item())


main()
