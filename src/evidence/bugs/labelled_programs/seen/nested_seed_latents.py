# cause: generator-or-default-device
# guilty: generator (self.generator)
# line: 30
# repair: in SeedBank.generator make it for the wanted device, torch.Generator(device=device).manual_seed(...) OR in LatentSource.draw draw on the host with device="cpu" and move the result to self.device
"""Reproducible image sampling: each picture has its own seed."""
import torch
import torch.nn as nn


class SeedBank:
    """Gives every picture a generator of its own, the same for the same name."""

    def __init__(self, base=1234):
        self.base = base
        self.made = {}

    def generator(self, name):
        if name not in self.made:
            seed = self.base + sum(ord(c) * (i + 1) for i, c in enumerate(name))
            self.made[name] = torch.Generator().manual_seed(seed)
        return self.made[name]


class LatentSource:
    def __init__(self, bank, shape, device):
        self.bank, self.shape, self.device = bank, shape, device

    def draw(self, name):
        generator = self.bank.generator(name)
        return torch.randn(self.shape, generator=generator, device=self.device)

    def batch(self, names):
        return torch.stack([self.draw(name) for name in names])


class Denoiser(nn.Module):
    def __init__(self, channels=4, hidden=16):
        super().__init__()
        self.inp = nn.Conv2d(channels + 1, hidden, 3, padding=1)
        self.out = nn.Conv2d(hidden, channels, 3, padding=1)

    def forward(self, x, sigma):
        level = sigma.expand(x.shape[0], 1, *x.shape[2:])
        return self.out(torch.tanh(self.inp(torch.cat([x, level], dim=1))))


class HeunSampler:
    def __init__(self, steps=6, high=10.0, low=0.05):
        ramp = torch.linspace(0, 1, steps)
        self.sigmas = (high ** (1 / 7) + ramp * (low ** (1 / 7) - high ** (1 / 7))) ** 7

    def __call__(self, model, x):
        sigmas = self.sigmas.to(x.device)
        x = x * sigmas[0]
        for now, then in zip(sigmas[:-1], sigmas[1:]):
            slope = (x - model(x, now)) / now
            guess = x + slope * (then - now)
            slope2 = (guess - model(guess, then)) / then
            x = x + 0.5 * (slope + slope2) * (then - now)
        return x


class Studio:
    def __init__(self, device):
        self.device = torch.device(device)
        self.model = Denoiser().to(self.device).eval()
        self.source = LatentSource(SeedBank(), (4, 8, 8), self.device)
        self.sampler = HeunSampler()

    @torch.inference_mode()
    def paint(self, names):
        return self.sampler(self.model, self.source.batch(names))


if __name__ == "__main__":
    torch.manual_seed(0)
    studio = Studio("cuda:0" if torch.cuda.device_count() else "cpu")
    for names in (["harbour", "old mill"], ["pine wood"]):
        pictures = studio.paint(names)
        print(names, pictures.shape, pictures.std().item())
