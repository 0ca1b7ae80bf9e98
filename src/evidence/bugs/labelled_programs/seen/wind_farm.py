# cause: tensor-created-on-wrong-device
# guilty: z (z.t())
"""Gaussian process over turbine sites; picks the next site by quasi-random posterior paths."""
from dataclasses import dataclass

import torch
from torch.quasirandom import SobolEngine


@dataclass
class Hyper:
    scale: torch.Tensor
    amp: torch.Tensor
    noise: torch.Tensor

    @classmethod
    def default(cls, device):
        return cls(*(torch.tensor(v, device=device, requires_grad=True) for v in (-0.5, 0.0, -2.0)))

    def all(self):
        return [self.scale, self.amp, self.noise]


def rbf(a, b, h):
    return h.amp.exp() * torch.exp(-0.5 * torch.cdist(a, b).square() / h.scale.exp() ** 2)


def nll(x, y, h):
    k = rbf(x, x, h) + (h.noise.exp() + 1e-4) * torch.eye(len(x), device=x.device)
    chol = torch.linalg.cholesky(k)
    alpha = torch.cholesky_solve(y[:, None], chol)
    return 0.5 * (y[:, None] * alpha).sum() + chol.diagonal().log().sum()


@torch.no_grad()
def posterior(x, y, sites, h):
    k = rbf(x, x, h) + (h.noise.exp() + 1e-4) * torch.eye(len(x), device=x.device)
    chol = torch.linalg.cholesky(k)
    cross = rbf(x, sites, h)
    mean = (cross.t() @ torch.cholesky_solve(y[:, None], chol)).squeeze(1)
    v = torch.linalg.solve_triangular(chol, cross, upper=False)
    return mean, rbf(sites, sites, h) - v.t() @ v


def paths(mean, cov, count, sobol):
    root = torch.linalg.cholesky(cov + 1e-3 * torch.eye(len(mean), device=mean.device))
    u = sobol.draw(count).clamp(1e-4, 1 - 1e-4)
    z = torch.special.ndtri(u)
    return mean[:, None] + root @ z.t()


def main(device="cuda"):
    torch.manual_seed(30)
    x = torch.rand(20, 2, device=device)
    y = torch.sin(5 * x[:, 0]) * torch.cos(3 * x[:, 1])
    h = Hyper.default(device)
    opt = torch.optim.Adam(h.all(), lr=0.05)
    for _ in range(15):
        opt.zero_grad()
        loss = nll(x, y, h)
        loss.backward()
        opt.step()
    print("nll", round(loss.item(), 3))
    sites = torch.rand(30, 2, device=device)
    sobol = SobolEngine(len(sites), scramble=True, seed=7)
    drawn = paths(*posterior(x, y, sites, h), 64, sobol)
    gain = (drawn - y.max()).clamp(min=0).mean(dim=1)
    print("next site", sites[gain.argmax()].tolist())


main()
