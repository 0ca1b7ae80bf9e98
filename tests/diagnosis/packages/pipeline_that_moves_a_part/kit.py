import torch


class Pipeline:
    def __init__(self, painter, decoder):
        self.painter, self.decoder = painter, decoder

    def to(self, device):
        self.painter.to(device)
        return self

    @torch.no_grad()
    def __call__(self, noise, steps=2):
        latents = noise
        for _ in range(steps):
            latents = latents - 0.1 * self.painter(latents)
        return self.decoder(latents)
