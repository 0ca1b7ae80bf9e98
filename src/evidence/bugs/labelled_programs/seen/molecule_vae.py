# cause: tensor-created-on-wrong-device|module-left-on-other-device
# guilty: self.mu_x
import torch
import torch.nn as nn
import torch.nn.functional as F


class PropertyVAE(nn.Module):
    def __init__(self, data, latent=8):
        super().__init__()
        self.mu_x = data.mean(0)
        self.sd_x = data.std(0) + 1e-6
        d = data.size(1)
        self.enc = nn.Sequential(nn.Linear(d, 64), nn.SiLU(), nn.Linear(64, 2 * latent))
        self.dec = nn.Sequential(nn.Linear(latent, 64), nn.SiLU(), nn.Linear(64, d))

    def encode(self, x):
        x = (x - self.mu_x) / self.sd_x
        return self.enc(x).chunk(2, dim=-1)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        rec = self.dec(z)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        return rec, kl


descriptors = torch.randn(512, 20) * torch.linspace(0.1, 10, 20)
device = "cuda" if torch.cuda.is_available() else "cpu"
vae = PropertyVAE(descriptors).to(device)
opt = torch.optim.Adam(vae.parameters(), 1e-3)
beta = 0.0
for epoch in range(3):
    for x in descriptors.split(64):
        x = x.to(device)
        rec, kl = vae(x)
        loss = F.mse_loss(rec, x) + beta * kl
        opt.zero_grad()
        loss.backward()
        opt.step()
    beta = min(1.0, beta + 0.1)
    print(epoch, loss.item(), kl.item())
