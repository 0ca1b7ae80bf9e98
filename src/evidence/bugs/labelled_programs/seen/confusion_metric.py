# cause: metric-state-device
# guilty: self.matrix
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ConfusionMatrix:
    """Accumulates over an epoch; rows are the truth."""

    def __init__(self, n):
        self.n = n
        self.matrix = torch.zeros(n, n, dtype=torch.long)

    def update(self, pred, truth):
        flat = truth.flatten() * self.n + pred.flatten()
        self.matrix += torch.bincount(flat, minlength=self.n ** 2).view(self.n, self.n)

    def reset(self):
        self.matrix.zero_()

    def accuracy(self):
        return self.matrix.diag().sum() / self.matrix.sum().clamp(min=1)

    def recall(self):
        return self.matrix.diag() / self.matrix.sum(dim=1).clamp(min=1)


class Classifier(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, 24), nn.ReLU(), nn.Linear(24, n_out))
        self.register_buffer("mean", torch.zeros(n_in))
        self.register_buffer("std", torch.ones(n_in))

    def fit_norm(self, x):
        self.mean.copy_(x.mean(0))
        self.std.copy_(x.std(0))

    def forward(self, x):
        return self.body((x - self.mean) / self.std)


def loop(model, loader, device, optimiser=None, metric=None):
    model.train(optimiser is not None)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        with torch.set_grad_enabled(optimiser is not None):
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
        if optimiser is not None:
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        if metric is not None:
            metric.update(out.detach().argmax(dim=1), y)


def main():
    torch.manual_seed(0)
    x, y = torch.randn(48, 5), torch.randint(0, 4, (48,))
    train = DataLoader(TensorDataset(x[:32], y[:32]), batch_size=8, shuffle=True)
    test = DataLoader(TensorDataset(x[32:], y[32:]), batch_size=8)
    device = torch.device("cuda:1")
    model = Classifier(5, 4).to(device)
    model.fit_norm(x[:32].to(device))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    metric = ConfusionMatrix(4)
    for epoch in range(2):
        loop(model, train, device, optimiser)
        metric.reset()
        loop(model, test, device, metric=metric)
        print(epoch, metric.accuracy().item(), metric.recall().tolist())


if __name__ == "__main__":
    main()
