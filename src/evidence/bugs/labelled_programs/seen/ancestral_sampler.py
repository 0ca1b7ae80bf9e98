# cause: generator-on-other-device|generator-or-default-device
# guilty: rng
import torch
from torch import nn


class Sampler:
    def __init__(self, net, steps=10, device="cuda:1"):
        self.net = net.to(device).eval()
        self.device = device
        self.sigmas = torch.linspace(1.0, 0.01, steps, device=device)

    @torch.no_grad()
    def draw(self, shape, seed):
        rng = torch.Generator().manual_seed(seed)
        x = torch.randn(shape, generator=rng, device=self.device)
        for now, then in zip(self.sigmas[:-1], self.sigmas[1:]):
            score = self.net(x)
            x = x + (then - now) * score
        return x


net = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1),
    nn.SiLU(),
    nn.Conv2d(8, 1, 3, padding=1),
)
pictures = Sampler(net).draw((4, 1, 16, 16), seed=7)
print(pictures.mean().item())
