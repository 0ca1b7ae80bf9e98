# cause: adapter-weights-on-other-device|module-left-on-other-device
# guilty: a (self.bank[self.active][0] or b)
"""Several LoRA pairs for each projection, switched by task name."""
import math

import torch
from torch import nn


class BankedLinear(nn.Module):
    def __init__(self, base: nn.Linear, rank: int = 4, scale: float = 2.0):
        super().__init__()
        self.base = base
        for p in base.parameters():
            p.requires_grad_(False)
        self.rank, self.scale = rank, scale
        self.bank = {}
        self.active = None

    def add(self, task):
        a = nn.Parameter(torch.empty(self.rank, self.base.in_features))
        nn.init.kaiming_uniform_(a, a=math.sqrt(5))
        b = nn.Parameter(torch.zeros(self.base.out_features, self.rank))
        self.bank[task] = (a, b)

    def forward(self, x):
        y = self.base(x)
        if self.active is not None:
            a, b = self.bank[self.active]
            y = y + nn.functional.linear(nn.functional.linear(x, a), b) * self.scale
        return y


class Encoder(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.cls = nn.Linear(d, 3)

    def forward(self, x):
        s = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / 8, -1)
        return self.cls((s @ self.v(x)).mean(1))


def inject(model, tasks, names=("q", "v")):
    banks = []
    for n in names:
        bank = BankedLinear(getattr(model, n))
        for t in tasks:
            bank.add(t)
        setattr(model, n, bank)
        banks.append(bank)
    return banks


def main():
    model = Encoder()
    banks = inject(model, ["nli", "toxicity"])
    model.cuda()
    params = [p for b in banks for pair in b.bank.values() for p in pair]
    opt = torch.optim.AdamW(params, lr=1e-3)
    for task in ("nli", "toxicity"):
        for b in banks:
            b.active = task
        x, y = torch.randn(4, 10, 64, device="cuda"), torch.randint(0, 3, (4,), device="cuda")
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()


main()
