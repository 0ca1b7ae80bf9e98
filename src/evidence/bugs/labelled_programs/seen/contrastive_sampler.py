# cause: generator-on-other-device|generator-or-default-device
# guilty: self.rng
"""SimCLR-like training on small vectors with seeded sampling."""
import torch
from torch import nn
import torch.nn.functional as F

DEVICE = torch.device("cuda:0")


class Augment:
    def __init__(self, seed, device):
        self.rng = torch.Generator(device=device).manual_seed(seed)
        self.device = device

    def __call__(self, x):
        noise = torch.randn(x.shape, generator=self.rng, device=self.device)
        keep = torch.rand(x.shape, generator=self.rng, device=self.device) > 0.1
        return (x + 0.2 * noise) * keep


class EpochSampler:
    def __init__(self, n, batch, rng):
        self.n, self.batch, self.rng = n, batch, rng

    def __iter__(self):
        order = torch.randperm(self.n, generator=self.rng)
        for chunk in order.split(self.batch):
            if len(chunk) == self.batch:
                yield chunk.to(DEVICE)


def nt_xent(a, b, tau=0.2):
    z = F.normalize(torch.cat([a, b]), dim=1)
    sim = z @ z.t() / tau
    sim.fill_diagonal_(float("-inf"))
    n = a.size(0)
    target = torch.arange(2 * n, device=z.device).roll(n)
    return F.cross_entropy(sim, target)


def main():
    torch.manual_seed(0)
    bank = torch.randn(128, 20).to(DEVICE)
    augment = Augment(17, DEVICE)
    sampler = EpochSampler(len(bank), 32, augment.rng)
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 16)).to(DEVICE)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    warm = bank[:8]
    print("warm-up loss", nt_xent(net(augment(warm)), net(augment(warm))).item())
    for epoch in range(2):
        for idx in sampler:
            x = bank[idx]
            loss = nt_xent(net(augment(x)), net(augment(x)))
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    main()
