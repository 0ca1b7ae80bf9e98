# cause: module-left-on-other-device
# guilty: self.L
import torch
from torch import nn
import torch.nn.functional as F


class Metric(nn.Module):
    """A learned Mahalanobis metric, d(a, b) = |L(a - b)|."""

    def __init__(self, dim, rank):
        super().__init__()
        self.L = nn.Parameter(torch.randn(rank, dim) / dim ** 0.5)

    def update(self, a, b):
        diff = a - b
        return torch.matmul(diff, self.L.t()).pow(2).sum(-1)


class Tower(nn.Sequential):
    def __init__(self, dim):
        super().__init__(nn.Flatten(), nn.Linear(3 * 16 * 16, 64), nn.GELU(), nn.Linear(64, dim))


def triplets(batch, device):
    make = lambda: torch.rand(batch, 3, 16, 16, device=device)
    return make(), make(), make()


def train(steps: int = 3, device: str = "cuda:0"):
    tower = Tower(24).to(device)
    metric = Metric(24, 8)
    optim = torch.optim.SGD(list(tower.parameters()) + list(metric.parameters()), lr=0.05)
    for step in range(steps):
        anchor, pos, neg = (tower(im) for im in triplets(6, device))
        near = metric.update(anchor, pos)
        far = metric.update(anchor, neg)
        loss = F.relu(near - far + 0.2).mean()
        optim.zero_grad(set_to_none=True)
        loss.backward()
        optim.step()
        print(f"step {step} loss {float(loss):.3f}")


train()
