# cause: generator-or-default-device
# guilty: self.generator (generator)
# line: 40
# repair: make the generator on the device of the weights, torch.Generator(device=losses.device) (in HardExampleSampler.attach), OR draw from weights.cpu()
"""Loss-driven example sampler: examples with a high last loss are drawn more often."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Sampler, TensorDataset


class LossLedger:
    """Last seen loss per example; lives with the model, so that updating costs no copy."""

    def __init__(self, size, device):
        self.value = torch.full((size,), 2.0, device=device)

    def update(self, index, losses):
        self.value[index.to(self.value.device)] = losses.detach()


class HardExampleSampler(Sampler):
    def __init__(self, size, seed=0, sharpness=1.0):
        self.size, self.sharpness = size, sharpness
        self.generator = torch.Generator().manual_seed(seed)
        self.ledger = None

    def attach(self, ledger):
        self.ledger = ledger
        return self

    def __len__(self):
        return self.size

    def __iter__(self):
        if self.ledger is None:
            yield from torch.randperm(self.size, generator=self.generator).tolist()
            return
        weights = self.ledger.value.pow(self.sharpness)
        yield from torch.multinomial(weights, self.size, True, generator=self.generator).tolist()


class Task:
    def __init__(self, n=96):
        x = torch.randn(n, 8)
        self.data = TensorDataset(torch.arange(n), x, (x[:, 0] * x[:, 1] > 0).long())
        self.sampler = HardExampleSampler(n)
        self.loader = DataLoader(self.data, batch_size=16, sampler=self.sampler)


class Fitter:
    def __init__(self, task, device):
        self.task, self.device = task, device
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 2)).to(device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-2)
        self.ledger = LossLedger(len(task.data), device)

    def epoch(self):
        total = 0.0
        for index, x, y in self.task.loader:
            losses = F.cross_entropy(self.net(x.to(self.device)), y.to(self.device), reduction="none")
            self.optimizer.zero_grad()
            losses.mean().backward()
            self.optimizer.step()
            self.ledger.update(index, losses)
            total += losses.mean().item()
        self.task.sampler.attach(self.ledger)
        return total / len(self.task.loader)


if __name__ == "__main__":
    torch.manual_seed(0)
    fitter = Fitter(Task(), "cuda:1")
    for epoch in range(3):
        print(epoch, fitter.epoch())
