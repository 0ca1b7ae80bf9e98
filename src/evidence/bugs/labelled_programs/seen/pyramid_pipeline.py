# cause: generator-or-default-device
# guilty: generator (self.generator)
# after: huggingface/diffusers#13228
import torch
from torch import nn

class FlowScheduler:
    def __init__(self, stages, steps):
        self.stages, self.steps, self.gamma = stages, steps, 1 / 3

    def set_timesteps(self, stage, device):
        hi, lo = 1 - stage / self.stages, 1 - (stage + 1) / self.stages
        self.sigmas = torch.linspace(hi, lo, self.steps + 1, device=device)
        return self.sigmas[:-1]

    def step(self, velocity, i, latents):
        return latents + (self.sigmas[i + 1] - self.sigmas[i]) * velocity

class Denoiser(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(channels + 1, 32), nn.SiLU(), nn.Linear(32, channels))

    def forward(self, x, t):
        return self.net(torch.cat([x, t.expand(*x.shape[:-1], 1)], dim=-1))

class PyramidPipeline:
    def __init__(self, device, channels=4, stages=3):
        self.device, self.channels = torch.device(device), channels
        self.transformer = Denoiser(channels).to(self.device)
        self.scheduler = FlowScheduler(stages, steps=2)

    def prepare_latents(self, batch, size, generator):
        latents = torch.randn(batch, size, size, self.channels, generator=generator)
        return latents.to(self.device)

    def sample_block_noise(self, batch, size, device, generator):
        gamma = self.scheduler.gamma
        cov = torch.eye(4, device=device) * (1 + gamma) - torch.ones(4, 4, device=device) * gamma
        chol = torch.linalg.cholesky(cov + 1e-3 * torch.eye(4, device=device))
        blocks = batch * (size // 2) ** 2 * self.channels
        z = torch.randn(blocks, 4, device=device, generator=generator) @ chol.T
        return z.view(batch, size, size, self.channels)

    @torch.no_grad()
    def __call__(self, batch, size, generator=None):
        latents = self.prepare_latents(batch, size, generator)
        for stage in range(self.scheduler.stages):
            if stage > 0:
                latents = latents.repeat_interleave(2, 1).repeat_interleave(2, 2)
                noise = self.sample_block_noise(batch, latents.shape[1], self.device, generator)
                latents = 0.8 * latents + 0.2 * noise
            for i, t in enumerate(self.scheduler.set_timesteps(stage, self.device)):
                latents = self.scheduler.step(self.transformer(latents, t), i, latents)
        return latents

if __name__ == "__main__":
    pipe = PyramidPipeline("cuda")
    image = pipe(batch=1, size=4, generator=torch.Generator("cpu").manual_seed(7))
    print(image.shape)
