# cause: generator-or-default-device|generator-on-other-device
# guilty: rng
import torch
import torch.nn as nn


class Denoiser(nn.Module):
    def __init__(self, ch=4):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(ch + 1, 32, 3, padding=1), nn.SiLU(), nn.Conv2d(32, ch, 3, padding=1))

    def forward(self, z, t):
        tmap = t.view(-1, 1, 1, 1).expand(-1, 1, *z.shape[2:])
        return self.net(torch.cat([z, tmap], 1))


class Pipeline:
    def __init__(self, unet, decoder, device):
        self.unet = unet.to(device).eval()
        self.decoder = decoder.to(device).eval()
        self.device = torch.device(device)

    @torch.no_grad()
    def __call__(self, n, steps=6, seed=None):
        rng = torch.Generator()
        if seed is not None:
            rng.manual_seed(seed)
        z = torch.randn(n, 4, 8, 8, generator=rng, device=self.device)
        ts = torch.linspace(1, 0, steps + 1, device=self.device)
        for now, nxt in zip(ts[:-1], ts[1:]):
            v = self.unet(z, now.expand(n))
            z = z + (nxt - now) * v
        return self.decoder(z).clamp(-1, 1)


decoder = nn.Sequential(nn.ConvTranspose2d(4, 16, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1))
pipe = Pipeline(Denoiser(), decoder, "cuda:0")
grid = pipe(3, seed=1234)
again = pipe(3, seed=1234)
print(grid.shape, torch.equal(grid, again))
