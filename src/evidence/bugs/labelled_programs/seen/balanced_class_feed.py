# cause: generator-or-default-device
# guilty: self.loader (self.seeds.data, generator, the sampler's generator)
# line: 58
# repair: in Seeds.__init__ make the data generator on the host: self.data = torch.Generator().manual_seed(seed + 1) (the noise generator stays on the GPU)
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler


class Seeds:
    """One place for all randomness of an experiment."""

    def __init__(self, seed, device):
        self.device = torch.device(device)
        self.noise = torch.Generator(self.device).manual_seed(seed)
        self.data = torch.Generator(self.device).manual_seed(seed + 1)


class MachineSounds(Dataset):
    """Normal recordings and a handful of broken bearings."""

    def __init__(self, n=200, rate=0.08, length=64):
        g = torch.Generator().manual_seed(9)
        self.y = (torch.rand(n, generator=g) < rate).long()
        base = torch.sin(torch.linspace(0, 20, length))
        self.x = base + 0.3 * torch.randn(n, length, generator=g) + self.y[:, None] * 0.5

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def class_weights(labels):
    counts = torch.bincount(labels, minlength=2).double()
    return (1.0 / counts.clamp(min=1))[labels]


class Experiment:
    def __init__(self, seed=0, device="cuda:0", batch_size=20):
        self.seeds = Seeds(seed, device)
        self.device = device
        self.data = MachineSounds()
        sampler = WeightedRandomSampler(
            class_weights(self.data.y), num_samples=len(self.data), generator=self.seeds.data
        )
        self.loader = DataLoader(self.data, batch_size=batch_size, sampler=sampler)
        self.model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2)).to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def augment(self, x):
        noise = torch.randn(x.shape, generator=self.seeds.noise, device=self.device)
        return x + 0.05 * noise

    def epoch(self):
        hits = seen = 0
        for x, y in self.loader:
            x, y = self.augment(x.to(self.device)), y.to(self.device)
            logits = self.model(x)
            loss = nn.functional.cross_entropy(logits, y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            hits += (logits.argmax(1) == y).sum().item()
            seen += len(y)
        return hits / seen


if __name__ == "__main__":
    run = Experiment(seed=4)
    for i in range(2):
        print("epoch", i, "accuracy", round(run.epoch(), 3))
