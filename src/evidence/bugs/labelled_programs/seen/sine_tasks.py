# cause: optimizer-state-on-other-device
# guilty: ?
"""First-order meta-learning of sine waves (the slow update is done by an optimizer)."""
import math

import torch
from torch import nn
from torch.func import functional_call


class Wave:
    def __init__(self, device):
        self.amp = 0.1 + 4.9 * torch.rand(1, device=device)
        self.phase = math.pi * torch.rand(1, device=device)
        self.device = device

    def sample(self, n):
        x = 10 * torch.rand(n, 1, device=self.device) - 5
        return x, self.amp * torch.sin(x + self.phase)


def fit(net, start, task, steps=5, lr=0.02):
    fast = {k: v.detach().clone().requires_grad_() for k, v in start.items()}
    for _ in range(steps):
        x, y = task.sample(10)
        loss = (functional_call(net, fast, (x,)) - y).square().mean()
        grads = torch.autograd.grad(loss, list(fast.values()))
        fast = {k: (w - lr * g).detach().requires_grad_() for (k, w), g in zip(fast.items(), grads)}
    return fast, loss.detach()


class MetaLearner:
    def __init__(self, hidden=40, lr=0.05):
        self.net = nn.Sequential(
            nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1)
        )
        self.outer = torch.optim.Adagrad(self.net.parameters(), lr=lr)

    def to(self, device):
        self.net.to(device)
        return self

    def meta_step(self, tasks):
        start = dict(self.net.named_parameters())
        self.outer.zero_grad()
        for p in start.values():
            p.grad = torch.zeros_like(p)
        total = 0.0
        for task in tasks:
            fast, loss = fit(self.net, start, task)
            total += loss.item()
            for name, p in start.items():
                p.grad += (p.detach() - fast[name].detach()) / len(tasks)
        self.outer.step()
        return total / len(tasks)


if __name__ == "__main__":
    torch.manual_seed(1)
    where = "cuda"
    learner = MetaLearner().to(where)
    for it in range(6):
        print(it, round(learner.meta_step([Wave(where) for _ in range(4)]), 4))
