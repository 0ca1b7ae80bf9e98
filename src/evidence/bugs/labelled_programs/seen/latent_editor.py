# cause: offload-hook-bypassed
# guilty: self.down
"""Image editing in latent space with models that are offloaded between uses."""
import torch
from accelerate import cpu_offload_with_hook
from torch import nn


class AutoEncoder(nn.Module):
    def __init__(self, latent=4):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.SiLU(),
                                  nn.Conv2d(16, latent, 3, stride=2, padding=1))
        self.up = nn.Sequential(nn.ConvTranspose2d(latent, 16, 2, stride=2), nn.SiLU(),
                                nn.ConvTranspose2d(16, 3, 2, stride=2))

    def encode(self, images):
        return self.down(images) * 0.18

    def forward(self, latents):
        return self.up(latents / 0.18).clamp(-1, 1)


class Denoiser(nn.Module):
    def __init__(self, latent=4):
        super().__init__()
        self.step_scale = nn.Embedding(50, latent)
        self.conv = nn.Conv2d(latent, latent, 3, padding=1)

    def forward(self, latents, step):
        return self.conv(latents) * self.step_scale(step)[:, :, None, None]


class Editor:
    def __init__(self, device):
        self.device = torch.device(device)
        self.denoiser, self.denoiser_hook = cpu_offload_with_hook(Denoiser(), self.device)
        self.vae, self.vae_hook = cpu_offload_with_hook(
            AutoEncoder(), self.device, prev_module_hook=self.denoiser_hook)

    @torch.no_grad()
    def __call__(self, images, steps=4, strength=0.5):
        images = images.to(self.device)
        latents = self.vae.encode(images * 2 - 1)
        latents = latents + strength * torch.randn(latents.shape, device=self.device)
        for i in reversed(range(steps)):
            step = torch.full((images.size(0),), i, dtype=torch.long, device=self.device)
            latents = latents - 0.1 * self.denoiser(latents, step)
        edited = self.vae(latents)
        self.vae_hook.offload()
        return (edited.cpu() + 1) / 2


if __name__ == "__main__":
    torch.manual_seed(0)
    result = Editor("cuda:1")(torch.rand(2, 3, 16, 16))
    print(result.shape, float(result.mean()))
