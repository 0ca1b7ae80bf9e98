# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: eps (noise)
"""Variational text autoencoder; trained on the card that is free."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F


class TextVAE(nn.Module):
    def __init__(self, vocab=120, emb=32, hid=64, z=16):
        super(TextVAE, self).__init__()
        self.embedding = nn.Embedding(vocab, emb)
        self.encoder = nn.GRU(emb, hid, batch_first=True)
        self.to_mu = nn.Linear(hid, z)
        self.to_logvar = nn.Linear(hid, z)
        self.from_z = nn.Linear(z, hid)
        self.decoder = nn.GRU(emb, hid, batch_first=True)
        self.out = nn.Linear(hid, vocab)
        self.zdim = z

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn(mu.size(0), self.zdim).cuda()
        return mu + eps * std

    def forward(self, x):
        e = self.embedding(x)
        _, h = self.encoder(e)
        mu, logvar = self.to_mu(h[-1]), self.to_logvar(h[-1])
        z = self.reparameterize(mu, logvar)
        y, _ = self.decoder(e, self.from_z(z).unsqueeze(0))
        return self.out(y), mu, logvar


def elbo(logits, x, mu, logvar, beta):
    rec = F.cross_entropy(logits[:, :-1].flatten(0, 1), x[:, 1:].flatten())
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(1).mean()
    return rec + beta * kl


gpu = int(os.environ.get("FREE_GPU", "1"))
device = torch.device("cuda", gpu)
model = TextVAE().to(device)
optim = torch.optim.Adam(model.parameters())
for step in range(3):
    x = torch.randint(0, 120, (4, 15)).to(device)
    logits, mu, logvar = model(x)
    loss = elbo(logits, x, mu, logvar, beta=step / 10)
    optim.zero_grad()
    loss.backward()
    optim.step()
