# cause: optimizer-state-on-other-device|optimizer-built-before-move
# guilty: slow
import torch
from torch import nn, optim


class Lookahead:
    """k steps forward, one step back (wraps any optimizer)."""

    def __init__(self, base, k=3, alpha=0.5):
        self.base, self.k, self.alpha = base, k, alpha
        self.counter = 0
        self.slow_weights = [[p.detach().clone() for p in g["params"]] for g in base.param_groups]

    def zero_grad(self):
        self.base.zero_grad(set_to_none=True)

    @torch.no_grad()
    def step(self):
        self.base.step()
        self.counter += 1
        if self.counter % self.k:
            return
        for group, slow_group in zip(self.base.param_groups, self.slow_weights):
            for p, slow in zip(group["params"], slow_group):
                slow.add_(p.data - slow, alpha=self.alpha)
                p.data.copy_(slow)


class Autoencoder(nn.Module):
    def __init__(self, n=12, z=3):
        super().__init__()
        self.enc = nn.Linear(n, z)
        self.dec = nn.Linear(z, n)

    def forward(self, x):
        return self.dec(torch.tanh(self.enc(x)))


def get_optimizer(model, name):
    base = {"sgd": lambda p: optim.SGD(p, lr=0.1), "rms": lambda p: optim.RMSprop(p, lr=0.01)}[name](model.parameters())
    return Lookahead(base)


def main():
    torch.manual_seed(0)
    model = Autoencoder()
    opt = get_optimizer(model, "sgd")
    gpu = torch.device("cuda:0")
    model = model.to(gpu)
    x = torch.randn(40, 12).to(gpu)
    for it in range(6):
        opt.zero_grad()
        loss = (model(x) - x).square().mean()
        loss.backward()
        opt.step()
        print(it, loss.item())


main()
