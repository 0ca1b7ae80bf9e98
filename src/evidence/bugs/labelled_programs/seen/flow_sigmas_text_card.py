# cause: tensor-created-on-wrong-device|extra-input-on-wrong-device
# guilty: dt (self.sigmas)
# line: 50
# repair: in TextToImage.__call__ set the schedule for the denoiser's card, set_timesteps(steps, device=latents.device) OR in FlowScheduler.step use dt = (...).to(sample.device)
"""Text-to-image sampling with the text encoder on one card and the denoiser on the other."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TextEncoder(nn.Module):
    def __init__(self, vocab=64, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)

    def forward(self, ids):
        return self.mix(self.embed(ids))


class FlowDenoiser(nn.Module):
    def __init__(self, channels=4, dim=32):
        super().__init__()
        self.inlet = nn.Conv2d(channels, dim, 1)
        self.attend = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.time = nn.Linear(1, dim)
        self.outlet = nn.Conv2d(dim, channels, 1)

    def forward(self, x, t, context):
        h = self.inlet(x) + self.time(t[:, None])[:, :, None, None]
        b, c, height, width = h.shape
        tokens = h.flatten(2).transpose(1, 2)
        tokens = tokens + self.attend(tokens, context, context, need_weights=False)[0]
        return self.outlet(F.silu(tokens.transpose(1, 2).view(b, c, height, width)))


class FlowScheduler:
    def __init__(self, shift=3.0):
        self.shift, self.index = shift, 0

    def set_timesteps(self, steps, device=None):
        line = torch.linspace(1, 0, steps + 1, device=device)
        self.sigmas = self.shift * line / (1 + (self.shift - 1) * line)
        self.timesteps = (self.sigmas[:-1] * 1000).tolist()
        self.index = 0

    def step(self, velocity, sample):
        dt = self.sigmas[self.index + 1] - self.sigmas[self.index]
        self.index += 1
        return sample + dt * velocity


class TextToImage:
    def __init__(self, text_encoder, denoiser, scheduler, text_card, image_card):
        self.text_card, self.image_card = torch.device(text_card), torch.device(image_card)
        self.text_encoder = text_encoder.to(self.text_card).eval()
        self.denoiser = denoiser.to(self.image_card).eval()
        self.scheduler = scheduler

    @property
    def device(self):
        return self.text_encoder.embed.weight.device

    def encode(self, ids):
        context = self.text_encoder(ids.to(self.text_card))
        empty = self.text_encoder(torch.zeros_like(ids).to(self.text_card))
        return torch.cat([empty, context]).to(self.image_card)

    @torch.no_grad()
    def __call__(self, ids, steps=5, guidance=4.0):
        context = self.encode(ids)
        latents = torch.randn(len(ids), 4, 8, 8).to(context.device)
        self.scheduler.set_timesteps(steps, device=self.device)
        for t in self.scheduler.timesteps:
            both = torch.cat([latents, latents])
            level = torch.full((len(both),), t / 1000, device=latents.device)
            free, led = self.denoiser(both, level, context).chunk(2)
            latents = self.scheduler.step(free + guidance * (led - free), latents)
        return latents


if __name__ == "__main__":
    torch.manual_seed(0)
    pipe = TextToImage(TextEncoder(), FlowDenoiser(), FlowScheduler(), "cuda:1", "cuda:0")
    print(pipe(torch.randint(1, 64, (2, 6))).std().item())
