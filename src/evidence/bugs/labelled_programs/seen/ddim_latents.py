# cause: generator-or-default-device
# guilty: g (generator)
import torch
import torch.nn as nn


class TinyUNet(nn.Module):
    def __init__(self, ch=4):
        super().__init__()
        self.time = nn.Embedding(1000, 16)
        self.inp = nn.Conv2d(ch, 16, 3, padding=1)
        self.mid = nn.Conv2d(16, 16, 3, padding=1)
        self.out = nn.Conv2d(16, ch, 3, padding=1)

    def forward(self, x, t):
        h = torch.relu(self.inp(x) + self.time(t)[:, :, None, None])
        return self.out(torch.relu(self.mid(h)))


def prepare_latents(batch, seed, device, size=16):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 4, size, size, generator=g, device=device)


@torch.no_grad()
def ddim(unet, latents, steps=10):
    acp = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000, device=latents.device), 0)
    grid = list(range(999, -1, -(1000 // steps)))
    for i, t in enumerate(grid):
        tt = torch.full((latents.size(0),), t, device=latents.device, dtype=torch.long)
        eps = unet(latents, tt)
        a = acp[t]
        prev = acp[grid[i + 1]] if i + 1 < len(grid) else torch.ones((), device=latents.device)
        x0 = (latents - (1 - a).sqrt() * eps) / a.sqrt()
        latents = prev.sqrt() * x0 + (1 - prev).sqrt() * eps
    return latents


device = "cuda:1"
unet = TinyUNet().to(device).eval()
for seed in (1, 2):
    z = ddim(unet, prepare_latents(2, seed, device))
    print(seed, z.shape, z.std().item())
