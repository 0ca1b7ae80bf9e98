# cause: tensor-created-on-wrong-device
# guilty: freqs
import math
import torch
from torch import nn


class ResBlock(nn.Module):
    def __init__(self, c, temb):
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, padding=1)
        self.proj = nn.Linear(temb, c)

    def forward(self, x, emb):
        return x + torch.relu(self.conv(x) + self.proj(emb)[:, :, None, None])


class TwoStageDenoiser(nn.Module):
    """Encoder half lives on the first card, decoder half on the second."""

    def __init__(self, c=16, temb=32):
        super().__init__()
        self.temb = temb
        self.stem = nn.Conv2d(3, c, 3, padding=1).to("cuda:0")
        self.down = ResBlock(c, temb).to("cuda:0")
        self.up = ResBlock(c, temb).to("cuda:1")
        self.tail = nn.Conv2d(c, 3, 3, padding=1).to("cuda:1")

    def embed_time(self, t):
        half = self.temb // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half, device=self.stem.weight.device) / half)
        args = t[:, None].float() * freqs[None]
        return torch.cat([args.cos(), args.sin()], dim=-1)

    def forward(self, x, t):
        h = self.stem(x.to("cuda:0"))
        h = self.down(h, self.embed_time(t.to("cuda:0")))
        h = h.to("cuda:1")
        h = self.up(h, self.embed_time(t.to("cuda:1")))
        return self.tail(h)


@torch.no_grad()
def sample(model, n, steps=4):
    img = torch.randn(n, 3, 8, 8, device="cuda:1")
    betas = torch.linspace(1e-4, 2e-2, steps, device="cuda:1")
    abar = torch.cumprod(1 - betas, 0)
    for i in reversed(range(steps)):
        t = torch.full((n,), i)
        eps = model(img, t)
        img = (img - betas[i] / (1 - abar[i]).sqrt() * eps) / (1 - betas[i]).sqrt()
    return img


torch.manual_seed(0)
print(sample(TwoStageDenoiser().eval(), 2).shape)
