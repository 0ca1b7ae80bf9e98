# cause: hard-coded-device
# guilty: noise
"""Conditional GAN on tiny images; the trainer lets you pick the card."""
import torch
import torch.nn.functional as F
from torch import nn


class Generator(nn.Module):
    def __init__(self, latent=12, classes=4):
        super().__init__()
        self.latent = latent
        self.label = nn.Embedding(classes, 6)
        self.net = nn.Sequential(nn.Linear(latent + 6, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh())

    def draw(self, n):
        return torch.randn(n, self.latent).cuda()

    def forward(self, labels, noise=None):
        if noise is None:
            noise = self.draw(labels.size(0))
        h = torch.cat([noise, self.label(labels)], dim=1)
        return self.net(h).view(-1, 1, 8, 8)


class Critic(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.label = nn.Embedding(classes, 64)
        self.net = nn.Sequential(nn.Linear(128, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))

    def forward(self, images, labels):
        return self.net(torch.cat([images.flatten(1), self.label(labels)], dim=1)).squeeze(-1)


class GanTrainer:
    def __init__(self, device):
        self.device = torch.device(device)
        self.g, self.d = Generator().to(self.device), Critic().to(self.device)
        self.g_opt = torch.optim.Adam(self.g.parameters(), lr=2e-4)
        self.d_opt = torch.optim.Adam(self.d.parameters(), lr=2e-4)

    def step(self, images, labels):
        images, labels = images.to(self.device), labels.to(self.device)
        fixed = torch.zeros(labels.size(0), self.g.latent, device=self.device)
        with torch.no_grad():
            preview = self.g(labels, fixed)
        fake = self.g(labels)
        d_loss = F.softplus(-self.d(images, labels)).mean() + F.softplus(self.d(fake.detach(), labels)).mean()
        self.d_opt.zero_grad()
        d_loss.backward()
        self.d_opt.step()
        g_loss = F.softplus(-self.d(fake, labels)).mean()
        self.g_opt.zero_grad()
        g_loss.backward()
        self.g_opt.step()
        return g_loss.item(), preview.cpu()


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = GanTrainer("cuda:1")
    for _ in range(3):
        score, _ = trainer.step(torch.rand(8, 1, 8, 8) * 2 - 1, torch.randint(0, 4, (8,)))
    print(score)
