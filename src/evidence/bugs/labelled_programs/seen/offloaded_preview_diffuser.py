# cause: hard-coded-device|tensor-created-on-wrong-device|weights-moved-away-by-manager
# guilty: noise (latents)
# line: 82
# repair: give the card on: pipe.enable_offload(gpu_id=1) in main OR let enable_offload default to self.device.index, so the components run on the card where the latents are made OR make the latents on the offload card
"""Text-to-image previews; components wait on the host and visit the card one after the other."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import cpu_offload_with_hook


class PromptEncoder(nn.Module):
    def __init__(self, vocab=100, dim=24):
        super().__init__()
        self.table = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)

    def forward(self, ids):
        out, _ = self.rnn(self.table(ids))
        return out[:, -1]


class Denoiser(nn.Module):
    def __init__(self, channels=4, width=16, dim=24):
        super().__init__()
        self.inp = nn.Conv2d(channels, width, 3, padding=1)
        self.cond = nn.Linear(dim + 1, width)
        self.out = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x, level, prompt):
        level = level.expand(x.shape[0], 1)
        shift = self.cond(torch.cat([prompt, level], 1))
        return self.out(F.silu(self.inp(x) + shift[:, :, None, None]))


class PixelDecoder(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, 3, 4, stride=2, padding=1)

    def forward(self, z):
        return self.up(z).sigmoid()


class PreviewPipeline:
    order = ("prompt_encoder", "denoiser", "decoder")

    def __init__(self, prompt_encoder, denoiser, decoder):
        self.prompt_encoder, self.denoiser, self.decoder = prompt_encoder, denoiser, decoder
        self.device = torch.device("cpu")
        self.hooks = []

    def to(self, device):
        self.device = torch.device(device)
        for name in self.order:
            getattr(self, name).to(self.device)
        return self

    def enable_offload(self, gpu_id=0):
        card = torch.device(f"cuda:{gpu_id}")
        hook = None
        for name in self.order:
            module, hook = cpu_offload_with_hook(getattr(self, name), card, prev_module_hook=hook)
            setattr(self, name, module)
            self.hooks.append(hook)

    def sigmas(self, steps):
        return torch.linspace(1.0, 0.0, steps + 1)

    @torch.no_grad()
    def __call__(self, ids, steps=6, guidance=2.0, seed=0):
        batch = ids.shape[0]
        generator = torch.Generator().manual_seed(seed)
        prompt = self.prompt_encoder(torch.cat([torch.zeros_like(ids), ids]).to(self.device))
        latents = torch.randn(batch, 4, 16, 16, generator=generator).to(self.device)
        sigmas = self.sigmas(steps)
        for now, after in zip(sigmas[:-1], sigmas[1:]):
            level = now.view(1, 1).to(self.device)
            both = self.denoiser(torch.cat([latents, latents]), level, prompt)
            plain, guided = both.chunk(2)
            noise = plain + guidance * (guided - plain)
            latents = latents + (after - now) * noise
        images = self.decoder(latents)
        for hook in self.hooks:
            hook.offload()
        return images.cpu()


def build(device):
    torch.manual_seed(0)
    return PreviewPipeline(PromptEncoder().eval(), Denoiser().eval(), PixelDecoder().eval()).to(device)


def main():
    pipe = build("cuda:1")
    ids = torch.randint(1, 100, (2, 7))
    images = pipe(ids)
    print("resident", tuple(images.shape), round(images.mean().item(), 4))
    pipe.enable_offload()
    images = pipe(ids)
    print("offloaded", tuple(images.shape), round(images.mean().item(), 4))


if __name__ == "__main__":
    main()
