# cause: meta-tensor-not-materialized
# guilty: self.model
import torch
import torch.nn as nn
from accelerate import init_empty_weights


class Vq(nn.Module):
    def __init__(self, codes, d):
        super().__init__()
        self.book = nn.Embedding(codes, d)

    def forward(self, z):
        idx = torch.cdist(z, self.book.weight).argmin(-1)
        q = self.book(idx)
        return z + (q - z).detach(), (q - z.detach()).pow(2).mean()


class VqVae(nn.Module):
    def __init__(self, d_in=16, d=8, codes=32):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d_in, 32), nn.ReLU(), nn.Linear(32, d))
        self.vq = Vq(codes, d)
        self.dec = nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Linear(32, d_in))

    def forward(self, x):
        z, commit = self.vq(self.enc(x))
        return self.dec(z), commit


def count(model):
    return sum(p.numel() for p in model.parameters())


def choose_width(limit, widths=(64, 32, 16, 8)):
    """Largest latent width whose model stays under the limit; nothing is allocated."""
    for d in widths:
        with init_empty_weights():
            candidate = VqVae(d=d)
        if count(candidate) <= limit:
            return d, candidate
    raise ValueError("limit too small")


class Job:
    def __init__(self, limit, device):
        self.width, self.model = choose_width(limit)
        self.device = torch.device(device)

    def start(self):
        self.model = self.model.to(self.device)
        self.opt = torch.optim.Adam(self.model.parameters(), 1e-3)
        return self

    def run(self, steps=5):
        for _ in range(steps):
            x = torch.randn(32, 16, device=self.device)
            rec, commit = self.model(x)
            loss = (rec - x).pow(2).mean() + 0.25 * commit
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()


job = Job(limit=3000, device="cuda").start()
print(job.width, job.run())
