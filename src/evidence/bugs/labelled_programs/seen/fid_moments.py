# cause: metric-state-device
# guilty: self.total
from typing import Iterable

import torch
from torch import Tensor, nn


class FeatureStats:
    """Streaming mean and covariance of features, for a Frechet distance."""

    def __init__(self, dim: int, device: torch.device):
        self.n = 0
        self.total = torch.zeros(dim, dtype=torch.float64, device=device)
        self.outer = torch.zeros(dim, dim, dtype=torch.float64, device=device)

    def update(self, feats: Tensor) -> None:
        feats = feats.double()
        self.n += feats.size(0)
        self.total = torch.add(self.total, feats.sum(0))
        self.outer = torch.add(self.outer, feats.T @ feats)

    def compute(self):
        mean = self.total / self.n
        return mean, self.outer / self.n - torch.outer(mean, mean)


class Generator(nn.Sequential):
    def __init__(self, z=8):
        super().__init__(nn.Linear(z, 64), nn.ReLU(), nn.Linear(64, 3 * 8 * 8), nn.Unflatten(1, (3, 8, 8)))


def evaluate(gen: nn.Module, extractor: nn.Module, real: Iterable[Tensor]) -> float:
    gen_dev = next(gen.parameters()).device
    feat_dev = next(extractor.parameters()).device
    stats = {"real": FeatureStats(10, gen_dev), "fake": FeatureStats(10, gen_dev)}
    with torch.no_grad():
        for images in real:
            stats["real"].update(extractor(images.to(feat_dev)))
            fake = gen(torch.randn(images.size(0), 8, device=gen_dev))
            stats["fake"].update(extractor(fake.to(feat_dev)))
    (m1, c1), (m2, c2) = stats["real"].compute(), stats["fake"].compute()
    return float((m1 - m2).square().sum() + torch.trace(c1 + c2))


def main() -> None:
    torch.manual_seed(0)
    gen = Generator().to("cuda:0")
    extractor = nn.Sequential(nn.Conv2d(3, 10, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).to("cuda:1").eval()
    print(evaluate(gen, extractor, [torch.rand(4, 3, 8, 8) for _ in range(3)]))


main()
