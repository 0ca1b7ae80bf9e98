# cause: tensor-created-on-wrong-device|hard-coded-device
# guilty: noise (self.noise(...), torch.randn(..., device="cuda"))
# line: 40
# repair: restore the previous card in CardScope.__exit__ (torch.cuda.set_device(self.before), or use torch.cuda.device(self.index)) OR draw the noise on the data's device: torch.randn_like(mean) in Vae.sample
"""A VAE on the first card and a perceptual network on the second."""
import torch
import torch.nn.functional as F
from torch import nn


class CardScope:
    """Everything that is built inside goes to the card, also what says only 'cuda'."""

    def __init__(self, index):
        self.index = index

    def __enter__(self):
        torch.cuda.set_device(self.index)
        return self

    def __exit__(self, *exc):
        torch.cuda.synchronize()
        return False


class Vae(nn.Module):
    def __init__(self, latent=8):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Flatten())
        self.mean = nn.Linear(8 * 64, latent)
        self.logvar = nn.Linear(8 * 64, latent)
        self.up = nn.Sequential(nn.Linear(latent, 8 * 64), nn.ReLU(), nn.Unflatten(1, (8, 8, 8)),
                                nn.ConvTranspose2d(8, 1, 2, 2))

    def noise(self, shape):
        return torch.randn(shape, device="cuda")

    def sample(self, mean, logvar):
        noise = self.noise(mean.shape)
        return mean + noise * (0.5 * logvar).exp()

    def forward(self, x):
        h = self.down(x)
        mean, logvar = self.mean(h), self.logvar(h)
        return self.up(self.sample(mean, logvar)), mean, logvar


class Perceptual(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
        for p in self.parameters():
            p.requires_grad_(False)

    def forward(self, a, b):
        device = self.net[0].weight.device
        return F.l1_loss(self.net(a.to(device)), self.net(b.to(device)))


class ModelFactory:
    def __init__(self):
        self.built = {}

    def build(self, name, make, card):
        with CardScope(card):
            self.built[name] = make().cuda()
        return self.built[name]


def kl(mean, logvar):
    return -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum(1).mean()


def train(factory, steps):
    vae = factory.build("vae", Vae, card=0)
    perceptual = factory.build("perceptual", Perceptual, card=1)
    device = next(vae.parameters()).device
    optimizer = torch.optim.Adam(vae.parameters(), lr=1e-3)
    for step in range(steps):
        x = torch.rand(6, 1, 16, 16).to(device)
        out, mean, logvar = vae(x)
        loss = F.mse_loss(out, x) + 0.01 * kl(mean, logvar) + 0.1 * perceptual(out, x).to(device)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    train(ModelFactory(), 3)
