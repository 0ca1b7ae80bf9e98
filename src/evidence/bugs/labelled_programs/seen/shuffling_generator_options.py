# cause: generator-or-default-device
# guilty: generator (self.generator, RandomSampler's generator, loader)
# line: 51
# repair: in LoaderFactory.build create the generator on the host (`torch.Generator().manual_seed(seed)`): the sampler draws torch.randperm on the CPU; keep the card's generator for the noise only
"""Noise-augmented regression on tabular rows; one seed drives loader and noise."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset


class Options:
    def __init__(self, seed=11, batch=16, device="cuda:0", noise=0.05):
        self.seed, self.batch, self.device, self.noise = seed, batch, device, noise


class SeedBank:
    def __init__(self, seed, device):
        self.seed = seed
        self.device = device

    def fresh(self, salt):
        return torch.Generator(device=self.device).manual_seed(self.seed + salt)


class LoaderFactory:
    def __init__(self, options):
        self.options = options
        self.bank = SeedBank(options.seed, options.device)

    def build(self, dataset):
        sampler = RandomSampler(dataset, generator=self.bank.fresh(1))
        return DataLoader(dataset, batch_size=self.options.batch, sampler=sampler)

    def noise_source(self):
        return self.bank.fresh(2)


def make_rows(n=64):
    x = torch.randn(n, 5)
    return TensorDataset(x, x[:, :1] * 2 - x[:, 1:2])


def fit(options, epochs=2):
    factory = LoaderFactory(options)
    loader = factory.build(make_rows())
    source = factory.noise_source()
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)).to(options.device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            x, y = x.to(options.device), y.to(options.device)
            noise = torch.randn(x.shape, generator=source, device=options.device)
            loss = ((model(x + options.noise * noise) - y) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(epoch, round(total / len(loader), 4))


if __name__ == "__main__":
    torch.manual_seed(0)
    fit(Options())
