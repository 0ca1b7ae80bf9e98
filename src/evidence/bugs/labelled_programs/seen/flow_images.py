# cause: generator-on-other-device|generator-or-default-device
# guilty: generator
import torch
from torch import nn


class Velocity(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.time = nn.Linear(1, ch)
        self.a, self.b = nn.Conv2d(3, ch, 3, padding=1), nn.Conv2d(ch, 3, 3, padding=1)

    def forward(self, x, t):
        return self.b(torch.tanh(self.a(x) + self.time(t[:, None])[..., None, None]))


def new_noise(shape, generator, device, dtype=torch.float32):
    return torch.randn(shape, generator=generator, device=device, dtype=dtype)


class FlowSampler:
    def __init__(self, net, steps=8, churn=0.1):
        self.net, self.steps, self.churn = net, steps, churn

    @property
    def device(self):
        return next(self.net.parameters()).device

    @torch.no_grad()
    def __call__(self, n, seed=None, size=16):
        rng = None if seed is None else torch.Generator().manual_seed(seed)
        x = new_noise((n, 3, size, size), rng, self.device)
        ts = torch.linspace(0, 1, self.steps + 1, device=self.device)
        for t0, t1 in zip(ts[:-1], ts[1:]):
            v = self.net(x, t0.expand(n))
            x = x + (t1 - t0) * v
            if t1 < 1:
                x = x + self.churn * (t1 - t0).sqrt() * new_noise(x.shape, rng, self.device)
        return x


def grid(x, cols=2):
    rows = x.clamp(-1, 1).split(cols)
    return torch.cat([torch.cat(list(r), -1) for r in rows], -2)


def main(device="cuda:0", seeds=(None, 7, 8)):
    sampler = FlowSampler(Velocity().to(device))
    for s in seeds:
        img = grid(sampler(4, seed=s))
        print(s, tuple(img.shape), img.mean().item())


if __name__ == "__main__":
    main()
