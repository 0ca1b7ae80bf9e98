# cause: hard-coded-device
# guilty: eps
import argparse

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(24)


class Vae(nn.Module):
    def __init__(self, pixels=49, hid=24, code=4):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(pixels, hid), nn.ReLU())
        self.mu, self.logvar = nn.Linear(hid, code), nn.Linear(hid, code)
        self.dec = nn.Sequential(nn.Linear(code, hid), nn.ReLU(), nn.Linear(hid, pixels))

    def reparam(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn(std.size()).cuda()
        return mu + eps * std

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        return self.dec(self.reparam(mu, logvar)), mu, logvar


def elbo(back, x, mu, logvar):
    rec = F.binary_cross_entropy_with_logits(back, x, reduction="sum")
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (rec + kl) / x.size(0)


parser = argparse.ArgumentParser()
parser.add_argument("--gpu", type=int, default=1)
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args([])

device = torch.device("cuda", args.gpu)
vae = Vae().to(device)
opt = torch.optim.Adam(vae.parameters(), lr=1e-3)
for step in range(args.steps):
    x = torch.rand(8, 49).to(device)
    loss = elbo(*(lambda r: (r[0], x, r[1], r[2]))(vae(x)))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
