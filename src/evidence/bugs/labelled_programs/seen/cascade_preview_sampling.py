# cause: weights-moved-away-by-manager|optimizer-state-on-other-device|module-left-on-other-device
# guilty: avg (self.averaged, averaged copy)
# line: 37
# repair: bring every averaged denoiser back to the card of its trained one when the preview is done (averaged.to(next(online.parameters()).device) in Preview.render, e.g. in a finally block) OR let the preview run a deepcopy OR sample each stage on the card it lives on and move only the images
"""Two-stage image cascade: each denoiser is trained on its own card, previews come from the averaged weights."""
import copy

import torch
from torch import nn
from torch.nn import functional as F

CARDS = {"base": "cuda:0", "upscale": "cuda:1"}
PREVIEW_CARD = "cuda:1"


class Denoiser(nn.Module):
    def __init__(self, channels, width=24):
        super().__init__()
        self.time = nn.Linear(1, width)
        self.enter = nn.Conv2d(channels, width, 3, padding=1)
        self.body = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, width, 3, padding=1))
        self.leave = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x, t):
        h = self.enter(x) + self.time(t.view(-1, 1))[:, :, None, None]
        return self.leave(h + self.body(h))


class Average:
    def __init__(self, online, decay=0.99):
        self.online, self.decay = online, decay
        self.averaged = copy.deepcopy(online).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self):
        for avg, now in zip(self.averaged.parameters(), self.online.parameters()):
            avg.mul_(self.decay).add_(now, alpha=1 - self.decay)


class Preview:
    """Renders a few samples through the whole cascade on one card."""

    def __init__(self, averages, device):
        self.averages, self.device = averages, torch.device(device)

    @torch.no_grad()
    def render(self, count=2, steps=4):
        stages = {name: avg.averaged.to(self.device) for name, avg in self.averages.items()}
        image = torch.randn(count, 3, 8, 8, device=self.device)
        for i in range(steps, 0, -1):
            t = torch.full((count,), i / steps, device=self.device)
            image = image - stages["base"](image, t) / steps
        low = F.interpolate(image, scale_factor=2)
        image = torch.randn_like(low)
        for i in range(steps, 0, -1):
            t = torch.full((count,), i / steps, device=self.device)
            image = image - stages["upscale"](torch.cat([image, low], 1), t) / steps
        return image.clamp(-1, 1).cpu()


class CascadeTrainer:
    def __init__(self):
        self.nets = {
            "base": Denoiser(3).to(CARDS["base"]),
            "upscale": Denoiser(6).to(CARDS["upscale"]),
        }
        self.averages = {name: Average(net) for name, net in self.nets.items()}
        self.optims = {name: torch.optim.Adam(net.parameters(), 1e-3) for name, net in self.nets.items()}
        self.preview = Preview(self.averages, PREVIEW_CARD)

    def loss(self, name, images):
        device = CARDS[name]
        images = images.to(device)
        small = F.avg_pool2d(images, 2)
        clean = small if name == "base" else images
        t = torch.rand(len(clean), device=device)
        noise = torch.randn_like(clean)
        noisy = clean + t[:, None, None, None] * noise
        if name == "upscale":
            noisy = torch.cat([noisy, F.interpolate(small, scale_factor=2)], 1)
        return F.mse_loss(self.nets[name](noisy, t), noise)

    def step(self, images):
        report = {}
        for name in self.nets:
            loss = self.loss(name, images)
            self.optims[name].zero_grad()
            loss.backward()
            self.optims[name].step()
            self.averages[name].update()
            report[name] = round(loss.item(), 3)
        return report


def main():
    torch.manual_seed(0)
    trainer = CascadeTrainer()
    for step in range(12):
        report = trainer.step(torch.rand(8, 3, 16, 16) * 2 - 1)
        print(step, report)
        if step % 5 == 4:
            print("preview", tuple(trainer.preview.render().shape))


if __name__ == "__main__":
    main()
