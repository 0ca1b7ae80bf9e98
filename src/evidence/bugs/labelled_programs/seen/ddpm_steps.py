# cause: extra-input-on-wrong-device
# guilty: when
import torch
from torch import nn


class Noiser:
    """Keeps its table on the host; gathers there and moves the result."""

    def __init__(self, n=100):
        self.n = n
        self.keep = torch.cumprod(1 - torch.linspace(1e-4, 0.02, n), 0)

    def __call__(self, x0, when, eps):
        a = self.keep[when].view(-1, 1).to(x0.device)
        return a.sqrt() * x0 + (1 - a).sqrt() * eps


class Denoiser(nn.Module):
    def __init__(self, d=10, width=32):
        super().__init__()
        self.register_buffer("freq", torch.exp(-torch.arange(8) / 2.0))
        self.body = nn.Sequential(nn.Linear(d + 16, width), nn.SiLU(), nn.Linear(width, d))

    def forward(self, x, when):
        ang = when[:, None].float() * self.freq
        return self.body(torch.cat([x, ang.sin(), ang.cos()], -1))


def batches(n):
    for _ in range(n):
        yield torch.randn(16, 10), torch.randint(0, 100, (16,))


device = "cuda:0"
noiser, net = Noiser(), Denoiser().to(device)
opt = torch.optim.Adam(net.parameters(), 1e-3)
for x0, when in batches(5):
    x0 = x0.to(device)
    eps = torch.randn_like(x0)
    guess = net(noiser(x0, when, eps), when)
    loss = (guess - eps).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
