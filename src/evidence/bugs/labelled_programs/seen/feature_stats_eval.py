# cause: metric-state-device
# guilty: self.total
"""Frechet-like distance between features of real and generated samples."""
import torch
from torch import nn


class FeatureStats:
    def __init__(self, dim, device):
        self.n = 0
        self.total = torch.zeros(dim, dtype=torch.float64, device=device)
        self.outer = torch.zeros(dim, dim, dtype=torch.float64, device=device)

    def update(self, feats):
        feats = feats.double()
        self.n += feats.size(0)
        self.total += feats.sum(0)
        self.outer += feats.T @ feats

    def finish(self):
        mean = self.total / self.n
        cov = self.outer / self.n - torch.outer(mean, mean)
        return mean.cpu(), cov.cpu()


def frechet(a, b):
    (m1, c1), (m2, c2) = a, b
    eig = torch.linalg.eigvals(c1 @ c2).real.clamp(min=0).sqrt().sum()
    return ((m1 - m2) ** 2).sum() + c1.trace() + c2.trace() - 2 * eig


class Extractor(nn.Module):
    def __init__(self, dim=12):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, x):
        return self.net(x)


def evaluate(generator, extractor, stats, batches=4):
    work = next(extractor.parameters()).device
    for kind in ("real", "fake"):
        for _ in range(batches):
            if kind == "real":
                x = torch.randn(32, 30)
            else:
                z = torch.randn(32, 8, device=next(generator.parameters()).device)
                x = generator(z)
            stats[kind].update(extractor(x.to(work)))
    return frechet(stats["real"].finish(), stats["fake"].finish()).item()


if __name__ == "__main__":
    torch.manual_seed(0)
    train_gpu, eval_gpu = torch.device("cuda:0"), torch.device("cuda:1")
    generator = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 30)).to(train_gpu)
    opt = torch.optim.Adam(generator.parameters(), 1e-2)
    for step in range(5):
        x = generator(torch.randn(64, 8, device=train_gpu))
        loss = x.mean(0).pow(2).sum() + (x.var(0) - 1).pow(2).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("moment loss", loss.item())
    extractor = Extractor().to(eval_gpu).eval()
    stats = {k: FeatureStats(12, train_gpu) for k in ("real", "fake")}
    with torch.no_grad():
        print("distance", evaluate(generator, extractor, stats))
