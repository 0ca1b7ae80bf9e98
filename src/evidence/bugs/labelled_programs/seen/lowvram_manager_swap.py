# cause: weights-moved-away-by-manager|module-left-on-other-device
# guilty: ?
"""Text-to-image in miniature. A manager keeps only what is needed on the card."""
import torch
import torch.nn as nn


class VramManager:
    def __init__(self, device):
        self.device = torch.device(device)
        self.loaded = None

    def load(self, module):
        if self.loaded is not None and self.loaded is not module:
            self.loaded.to("cpu")
        self.loaded = module.to(self.device)
        return self.loaded


class TextEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(64, 12)
        self.proj = nn.Linear(12, 12)

    def forward(self, ids):
        return self.proj(self.emb(ids)).mean(1)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16 + 12 + 1, 48), nn.SiLU(), nn.Linear(48, 16))

    def forward(self, z, cond, t):
        return self.net(torch.cat([z, cond, t], dim=-1))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 3 * 8 * 8)

    def forward(self, z):
        return torch.sigmoid(self.fc(z)).view(-1, 3, 8, 8)


class Pipeline:
    def __init__(self, device="cuda:1", steps=4):
        self.manager = VramManager(device)
        self.text, self.unet, self.vae = TextEncoder(), Denoiser(), Decoder()
        self.steps, self.device = steps, self.manager.device

    def encode(self, ids):
        return self.manager.load(self.text)(ids.to(self.device))

    @torch.no_grad()
    def __call__(self, ids, negative, guidance=3.0):
        cond = self.encode(ids)
        z = torch.randn(len(ids), 16, device=self.device)
        unet = self.manager.load(self.unet)
        uncond = self.encode(negative)
        for i in range(self.steps, 0, -1):
            t = torch.full((len(ids), 1), i / self.steps, device=self.device)
            e0, e1 = unet(z, uncond, t), unet(z, cond, t)
            z = z - (e0 + guidance * (e1 - e0)) / self.steps
        return self.manager.load(self.vae)(z).cpu()


if __name__ == "__main__":
    torch.manual_seed(0)
    pipe = Pipeline()
    out = pipe(torch.randint(0, 64, (2, 5)), torch.zeros(2, 5, dtype=torch.long))
    print(out.shape, out.mean().item())
