# cause: tensor-created-on-wrong-device
# guilty: self.alphas_cumprod (alphas_cumprod, table)
# line: 31
# repair: keep the result of the move: scheduler = scheduler.to("cuda:0") in Pipeline.to (Scheduler.to returns a copy, it does not change itself) OR index on the host / move the table: self.alphas_cumprod.to(t.device)[t]
"""A DDIM pipeline whose components are moved one after the other."""
import copy

import torch
from torch import nn


class DDIMScheduler:
    def __init__(self, train_steps=1000, start=1e-4, end=0.02):
        betas = torch.linspace(start ** 0.5, end ** 0.5, train_steps) ** 2
        self.alphas_cumprod = (1 - betas).cumprod(0)
        self.train_steps = train_steps
        self.timesteps = None

    def to(self, device):
        """A copy of the scheduler with its table on the device."""
        other = copy.copy(self)
        other.alphas_cumprod = self.alphas_cumprod.to(device)
        return other

    def set_timesteps(self, steps, device):
        stride = self.train_steps // steps
        self.stride = stride
        self.timesteps = torch.arange(steps - 1, -1, -1, device=device) * stride

    def alpha(self, t):
        picked = self.alphas_cumprod[t]
        return picked.view(-1, 1, 1, 1)

    def step(self, noise, t, sample):
        now = self.alpha(t)
        before = self.alpha((t - self.stride).clamp(min=0))
        clean = (sample - (1 - now).sqrt() * noise) / now.sqrt()
        return before.sqrt() * clean + (1 - before).sqrt() * noise


class Denoiser(nn.Module):
    def __init__(self, channels=8, train_steps=1000):
        super().__init__()
        self.time = nn.Embedding(train_steps, channels)
        self.enter = nn.Conv2d(3, channels, 3, padding=1)
        self.mid = nn.Conv2d(channels, channels, 3, padding=1)
        self.leave = nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x, t):
        h = self.enter(x) + self.time(t)[:, :, None, None]
        return self.leave(torch.relu(self.mid(torch.relu(h))))


class Upscaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, x):
        return self.net(x.to(self.net[0].weight.device))


class Pipeline:
    def __init__(self, denoiser, upscaler, scheduler):
        self.components = {"denoiser": denoiser, "upscaler": upscaler, "scheduler": scheduler}
        self.device = torch.device("cpu")

    def __getattr__(self, name):
        components = self.__dict__.get("components", {})
        if name in components:
            return components[name]
        raise AttributeError(name)

    def to(self, device, upscaler_device=None):
        for name, component in self.components.items():
            component.to(upscaler_device or device if name == "upscaler" else device)
        self.device = torch.device(device)
        return self

    @torch.no_grad()
    def __call__(self, count, steps, size=16):
        self.scheduler.set_timesteps(steps, self.device)
        x = torch.randn(count, 3, size, size, device=self.device)
        for t in self.scheduler.timesteps:
            noise = self.denoiser(x, t.expand(count))
            x = self.scheduler.step(noise, t.expand(count), x)
        return self.upscaler(x).clamp(-1, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    pipe = Pipeline(Denoiser(), Upscaler(), DDIMScheduler()).to("cuda:0", upscaler_device="cuda:1")
    images = pipe(count=2, steps=5)
    print(images.shape, images.mean().item())
