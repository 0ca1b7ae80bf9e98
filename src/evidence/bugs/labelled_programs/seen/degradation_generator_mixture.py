# cause: generator-or-default-device
# guilty: self.rng
# line: 19
# repair: hand the device to the mixture as to its parts: GeneratorMixture(parts, probs, rng=rng, device=device) and forward it to the base class OR draw with device=self.rng.device
"""Train an image restorer against random degradations drawn from a mixture of operators."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DegradationGenerator:
    """Base of all parameter generators; every draw uses one shared random stream."""

    def __init__(self, rng=None, device="cpu"):
        self.device = torch.device(device)
        self.rng = rng if rng is not None else torch.Generator(device=self.device)

    def uniform(self, low, high, size):
        draw = torch.rand(size, generator=self.rng, device=self.device)
        return low + (high - low) * draw

    def step(self, batch):
        raise NotImplementedError


class BlurGenerator(DegradationGenerator):
    def __init__(self, kernel=5, **kwargs):
        super().__init__(**kwargs)
        line = torch.arange(kernel, device=self.device) - kernel // 2
        self.square = (line[:, None] ** 2 + line[None, :] ** 2).float()

    def step(self, batch):
        sigma = self.uniform(0.4, 1.6, (batch, 1, 1))
        psf = (-self.square / (2 * sigma ** 2)).exp()
        return {"psf": psf / psf.sum(dim=(1, 2), keepdim=True)}


class NoiseGenerator(DegradationGenerator):
    def __init__(self, low=0.01, high=0.1, **kwargs):
        super().__init__(**kwargs)
        self.low, self.high = low, high

    def step(self, batch):
        return {"sigma": self.uniform(self.low, self.high, (batch, 1, 1, 1))}


class GeneratorMixture(DegradationGenerator):
    def __init__(self, parts, probs, rng=None):
        super().__init__(rng=rng)
        self.parts = parts
        self.edges = torch.tensor(probs).cumsum(0)

    def step(self, batch):
        ticket = self.uniform(0.0, 1.0, (1,))
        which = int((ticket > self.edges).sum())
        return self.parts[min(which, len(self.parts) - 1)].step(batch)


def degrade(images, psf=None, sigma=None):
    if psf is not None:
        b, c, h, w = images.shape
        kernel = psf.repeat_interleave(c, 0)[:, None]
        images = F.conv2d(images.view(1, b * c, h, w), kernel, padding=psf.shape[-1] // 2, groups=b * c).view(b, c, h, w)
    if sigma is not None:
        images = images + sigma * torch.randn_like(images)
    return images


class Restorer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, 3, 3, padding=1),
        )

    def forward(self, y):
        return y + self.net(y)


def build_generators(device, seed=5):
    rng = torch.Generator(device=device).manual_seed(seed)
    blur = BlurGenerator(rng=rng, device=device)
    noise = NoiseGenerator(rng=rng, device=device)
    return blur, noise, GeneratorMixture([blur, noise], [0.5, 0.5], rng=rng)


def train(model, generator, device, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(steps):
        images = torch.rand(4, 3, 24, 24, device=device)
        restored = model(degrade(images, **generator.step(4)))
        loss = F.l1_loss(restored, images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:1")
    model = Restorer().to(device)
    blur, noise, mixture = build_generators(device)
    for name, generator in (("blur", blur), ("noise", noise), ("mixture", mixture)):
        print(name, round(train(model, generator, device, 5), 4))


if __name__ == "__main__":
    main()
