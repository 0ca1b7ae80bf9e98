# cause: optimizer-state-on-other-device
# guilty: buf (self.buffers, self.buffers[p])
# line: 35
# repair: in the user part place the stages before the optimizer is built (net.spread() above Muon(net.parameters())) OR create the buffer in step() with torch.zeros_like(p)
"""A matrix optimizer with orthogonalised momentum for a network on two cards."""
import torch
from torch import nn


def orthogonalise(g, steps=4):
    x = g / (g.norm() + 1e-7)
    flip = x.shape[0] > x.shape[1]
    x = x.T if flip else x
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if flip else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95):
        super().__init__(params, dict(lr=lr, momentum=momentum))
        self.buffers = {}
        for group in self.param_groups:
            for p in group["params"]:
                self.buffers[p] = torch.zeros_like(p)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                buf = self.buffers[p]
                buf.mul_(group["momentum"]).add_(p.grad)
                update = orthogonalise(buf) if p.ndim == 2 else buf
                p.add_(update, alpha=-group["lr"])


class TwoCardMLP(nn.Module):
    def __init__(self, dim=32, classes=5):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(dim, 64), nn.SiLU(), nn.Linear(64, 64))
        self.back = nn.Sequential(nn.SiLU(), nn.Linear(64, classes))
        self.cards = ("cpu", "cpu")

    def spread(self, first="cuda:0", second="cuda:1"):
        self.front.to(first)
        self.back.to(second)
        self.cards = (first, second)
        return self

    def forward(self, x):
        return self.back(self.front(x.to(self.cards[0])).to(self.cards[1]))


def run(net, opt, steps=3):
    for step in range(steps):
        x, y = torch.randn(16, 32), torch.randint(0, 5, (16,))
        logits = net(x)
        loss = nn.functional.cross_entropy(logits, y.to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


if __name__ == "__main__":
    torch.manual_seed(1)
    net = TwoCardMLP()
    opt = Muon(net.parameters())
    net.spread()
    run(net, opt)
