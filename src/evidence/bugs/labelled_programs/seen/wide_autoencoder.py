# cause: data-parallel-replica-device
# guilty: model
import torch
import torch.nn as nn

enc_dev = torch.device("cuda:0")
dec_dev = torch.device("cuda:1")


class Encoder(nn.Module):
    def __init__(self, width, z):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.mu = nn.Linear(width, z)
        self.logvar = nn.Linear(width, z)

    def forward(self, x):
        h = self.net(x)
        return self.mu(h), self.logvar(h)


class Decoder(nn.Module):
    def __init__(self, width, z):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(z, width), nn.ReLU(), nn.Linear(width, 784))

    def forward(self, z):
        return torch.sigmoid(self.net(z))


class VAE(nn.Module):
    def __init__(self, width=256, z=8):
        super().__init__()
        self.encoder = Encoder(width, z).to(enc_dev)
        self.decoder = Decoder(width, z).to(dec_dev)

    def forward(self, x):
        mu, logvar = self.encoder(x)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        recon = self.decoder(z.to(dec_dev))
        return recon.to(x.device), mu, logvar


def elbo(recon, x, mu, logvar):
    bce = nn.functional.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (bce + kld) / x.size(0)


torch.manual_seed(0)
model = VAE()
sample = torch.rand(2, 784, device=enc_dev)
with torch.no_grad():
    recon, mu, logvar = model(sample)
    print("initial elbo", elbo(recon, sample, mu, logvar).item())

model = nn.DataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    for _ in range(3):
        x = torch.rand(16, 784).to(enc_dev)
        recon, mu, logvar = model(x)
        loss = elbo(recon, x, mu, logvar)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
