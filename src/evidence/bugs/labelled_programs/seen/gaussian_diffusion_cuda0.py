# cause: hard-coded-device
# guilty: self.sqrt_abar[t]
import torch
from torch import nn


class GaussianDiffusion:
    """Forward process and training loss, after Ho et al. 2020."""

    def __init__(self, steps=50, lo=1e-4, hi=2e-2):
        beta = torch.linspace(lo, hi, steps, device="cuda:0")
        abar = torch.cumprod(1 - beta, dim=0)
        self.steps = steps
        self.sqrt_abar = abar.sqrt()[:, None, None, None]
        self.sqrt_rest = (1 - abar).sqrt()[:, None, None, None]

    def q_sample(self, x0, t, noise):
        mean = self.sqrt_abar[t] * x0
        return mean + self.sqrt_rest[t] * noise

    def loss(self, net, x0):
        t = torch.randint(0, self.steps, (x0.size(0),))
        noise = torch.randn_like(x0)
        return (net(self.q_sample(x0, t, noise), t.to(x0.device)) - noise).square().mean()


class Denoiser(nn.Module):
    def __init__(self, c=16, steps=50):
        super().__init__()
        self.time = nn.Embedding(steps, c)
        self.a = nn.Conv2d(1, c, 3, padding=1)
        self.b = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x, t):
        return self.b(torch.relu(self.a(x) + self.time(t)[:, :, None, None]))


def main(gpu: int):
    torch.cuda.set_device(gpu)
    net = Denoiser().to(f"cuda:{gpu}")
    process = GaussianDiffusion()
    opt = torch.optim.Adam(net.parameters(), lr=2e-4)
    for _ in range(3):
        digits = torch.rand(8, 1, 14, 14, device=f"cuda:{gpu}") * 2 - 1
        loss = process.loss(net, digits)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(loss.item())


main(gpu=1)
