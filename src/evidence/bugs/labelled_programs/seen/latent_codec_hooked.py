# cause: offload-hook-bypassed|module-left-on-other-device|input-not-on-embedding-device
# guilty: pixels (x, images)
"""Image to image: an autoencoder hooked onto the second card, the denoiser on the first."""
import torch
import torch.nn as nn
from accelerate.hooks import AlignDevicesHook, add_hook_to_module


class Codec(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.analysis = nn.Sequential(nn.Conv2d(3, 16, 4, stride=4), nn.SiLU(), nn.Conv2d(16, 2 * channels, 1))
        self.synthesis = nn.Sequential(nn.ConvTranspose2d(channels, 16, 4, stride=4), nn.SiLU(), nn.Conv2d(16, 3, 1))

    def encode(self, pixels):
        mean, logvar = self.analysis(pixels).chunk(2, dim=1)
        return mean + torch.exp(0.5 * logvar.clamp(-10, 4)) * torch.randn_like(mean)

    def decode(self, latents):
        return self.synthesis(latents)

    def forward(self, pixels):
        return self.decode(self.encode(pixels))


class Denoiser(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(channels + 1, 32, 3, padding=1), nn.SiLU(),
                                 nn.Conv2d(32, channels, 3, padding=1))

    def forward(self, latents, t):
        plane = t.view(-1, 1, 1, 1).expand(-1, 1, *latents.shape[2:])
        return self.net(torch.cat([latents, plane], dim=1))


def place(module, index):
    hook = AlignDevicesHook(execution_device=index, io_same_device=True, place_submodules=True)
    return add_hook_to_module(module, hook)


def prepare_latents(codec, images, strength):
    latents = codec.encode(images)
    return latents + strength * torch.randn_like(latents)


@torch.no_grad()
def edit(codec, denoiser, images, steps=4, strength=0.6):
    latents = prepare_latents(codec, images, strength).to(images.device)
    for k in range(steps):
        t = torch.full((images.shape[0],), 1 - k / steps, device=images.device)
        latents = latents - strength / steps * denoiser(latents, t)
    weight = codec.synthesis[0].weight
    return codec.decode(latents.to(weight.device)).clamp(0, 1)


def main():
    torch.manual_seed(0)
    codec = place(Codec().eval(), 1)
    denoiser = place(Denoiser().eval(), 0)
    images = torch.rand(2, 3, 32, 32).to("cuda:0")
    # the reconstruction check goes through forward
    print("reconstruction", codec(images).shape)
    print("edited", edit(codec, denoiser, images).shape)


if __name__ == "__main__":
    main()
