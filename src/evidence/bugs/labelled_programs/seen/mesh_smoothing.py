# cause: cross-device-operands
# guilty: ?
"""Implicit smoothing of vertex signals on a ring mesh, columns shared by two cards."""
import torch

DEVICES = ("cuda:0", "cuda:1")


def ring_laplacian(n, device):
    i = torch.arange(n, device=device)
    rows = torch.cat([i, i, i])
    cols = torch.cat([i, (i + 1) % n, (i - 1) % n])
    vals = torch.cat([torch.full((n,), 2.0, device=device), torch.full((2 * n,), -1.0, device=device)])
    return torch.sparse_coo_tensor(torch.stack([rows, cols]), vals, (n, n)).coalesce()


def conjugate_gradient(apply, b, iters=20):
    x = torch.zeros_like(b)
    r = b - apply(x)
    p = r.clone()
    rs = (r * r).sum(0)
    for _ in range(iters):
        ap = apply(p)
        alpha = rs / (p * ap).sum(0).clamp(min=1e-12)
        x = x + alpha * p
        r = r - alpha * ap
        new = (r * r).sum(0)
        p = r + (new / rs.clamp(min=1e-12)) * p
        rs = new
    return x


class Smoother:
    def __init__(self, n, strength=2.0):
        self.strength = strength
        self.laplacians = {d: ring_laplacian(n, d) for d in DEVICES}

    def _solve(self, columns, device):
        lap = self.laplacians[device]
        b = columns.to(device)
        return conjugate_gradient(lambda v: v + self.strength * torch.sparse.mm(lap, v), b)

    def __call__(self, signal):
        halves = signal.chunk(len(DEVICES), dim=1)
        parts = [self._solve(h, d) for h, d in zip(halves, DEVICES)]
        return torch.cat(parts, dim=1)


def roughness(x):
    return (x - x.roll(1, 0)).pow(2).mean().item()


def main():
    torch.manual_seed(0)
    n = 120
    angle = torch.arange(n) / n * 6.2832
    clean = torch.stack([(k * angle).sin() for k in range(1, 7)], dim=1)
    noisy = clean + 0.3 * torch.randn_like(clean)
    smoother = Smoother(n)
    smooth = smoother(noisy).cpu()
    print("roughness", roughness(noisy), "->", roughness(smooth))
    print("error", (noisy - clean).abs().mean().item(), "->", (smooth - clean).abs().mean().item())


if __name__ == "__main__":
    main()
