# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device
# guilty: keep
# line: 67
# repair: in Inpainter.__call__ move what prepare() returns to the denoiser's card: known, keep = known.to(self.main), keep.to(self.main) (the mask is left on the codec's card)
"""Latent inpainting: image codec on the second card, denoiser on the first."""
import torch
from torch import nn
import torch.nn.functional as F


class Codec(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.down = nn.Conv2d(3, channels, 4, 4)
        self.up = nn.ConvTranspose2d(channels, 3, 4, 4)

    def encode(self, x):
        return self.down(x)

    def decode(self, z):
        return self.up(z).clamp(-1, 1)


class Denoiser(nn.Module):
    def __init__(self, channels=4, width=16):
        super().__init__()
        self.inp = nn.Conv2d(channels + 1, width, 3, padding=1)
        self.out = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, z, t):
        level = torch.full_like(z[:, :1], t)
        return self.out(F.silu(self.inp(torch.cat([z, level], dim=1))))


class LinearSchedule:
    def __init__(self, steps):
        self.levels = torch.linspace(0.99, 0.02, steps).tolist()

    def add(self, z, noise, level):
        return (1 - level) * z + level * noise

    def pairs(self):
        return list(zip(self.levels, self.levels[1:] + [0.0]))


class Inpainter:
    def __init__(self, main="cuda:0", side="cuda:1", steps=5):
        self.main, self.side = torch.device(main), torch.device(side)
        self.codec = Codec().to(self.side).eval()
        self.denoiser = Denoiser().to(self.main).eval()
        self.schedule = LinearSchedule(steps)

    def prepare(self, image, mask):
        image, mask = image.to(self.side), mask.to(self.side)
        known = self.codec.encode(image * (1 - mask))
        keep = 1 - F.interpolate(mask, size=known.shape[-2:], mode="nearest")
        return known.to(self.main), keep

    @torch.no_grad()
    def __call__(self, image, mask):
        known, keep = self.prepare(image, mask)
        noise = torch.randn_like(known)
        z = noise.clone()
        for level, lower in self.schedule.pairs():
            z = z + (lower - level) * self.denoiser(z, level)
            anchor = self.schedule.add(known, noise, lower)
            z = keep * anchor + (1 - keep) * z
        return self.codec.decode(z.to(self.side)).cpu()


if __name__ == "__main__":
    torch.manual_seed(0)
    pipe = Inpainter()
    mask = torch.zeros(2, 1, 32, 32)
    mask[..., 8:24, 8:24] = 1
    print(pipe(torch.rand(2, 3, 32, 32) * 2 - 1, mask).shape)
