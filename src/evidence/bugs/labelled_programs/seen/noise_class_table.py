# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: self.SIGNAL (table, SIGNAL[t])
# line: 43
# repair: build the tables without a device in the class body and register them as buffers of DenoisingTask, or in _at use table.to(t.device)[t] OR make the tables in __init__(device) instead of .cuda(0) in the class body
"""Denoising task with its noise levels kept as tables of the class."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def cosine_levels(steps, offset=0.008):
    grid = torch.linspace(0, 1, steps + 1)
    level = torch.cos((grid + offset) / (1 + offset) * torch.pi / 2) ** 2
    return (level / level[0])[1:].clamp(1e-4, 0.9999)


class Backbone(nn.Module):
    def __init__(self, channels=16, steps=50):
        super().__init__()
        self.time = nn.Embedding(steps, channels)
        self.first = nn.Conv2d(1, channels, 3, padding=1)
        self.middle = nn.Conv2d(channels, channels, 3, padding=1)
        self.last = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, x, t):
        h = F.silu(self.first(x) + self.time(t)[:, :, None, None])
        return self.last(F.silu(self.middle(h)))


class DenoisingTask(nn.Module):
    STEPS = 50
    LEVELS = cosine_levels(STEPS)
    SIGNAL = LEVELS.sqrt().to("cuda:0")
    NOISE = (1 - LEVELS).sqrt().to("cuda:0")

    def __init__(self):
        super().__init__()
        self.backbone = Backbone(steps=self.STEPS)

    def corrupt(self, x, t, noise):
        signal = self.SIGNAL[t][:, None, None, None]
        return signal * x + self.NOISE[t][:, None, None, None] * noise

    def training_loss(self, x):
        t = torch.randint(0, self.STEPS, (x.shape[0],), device=x.device)
        noise = torch.randn_like(x)
        return F.mse_loss(self.backbone(self.corrupt(x, t, noise), t), noise)


class Trainer:
    def __init__(self, task, device, lr=2e-3):
        self.device = torch.device(device)
        self.task = task.to(self.device)
        self.optimizer = torch.optim.AdamW(self.task.parameters(), lr=lr)
        self.log = []

    def step(self, batch):
        loss = self.task.training_loss(batch.to(self.device, non_blocking=True))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.task.parameters(), 1.0)
        self.optimizer.step()
        self.log.append(loss.item())


def blobs(count):
    centre = torch.rand(count, 2, 1, 1) * 12 + 2
    y, x = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    return torch.exp(-((x - centre[:, 0]) ** 2 + (y - centre[:, 1]) ** 2) / 6)[:, None]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:1", help="the first card drives the display")
    args = parser.parse_args()
    torch.manual_seed(0)
    trainer = Trainer(DenoisingTask(), args.device)
    for _ in range(4):
        trainer.step(blobs(8))
    print([round(v, 3) for v in trainer.log])
