# cause: data-parallel-replica-device
# guilty: self.model (model, self.model.back, back)
# line: 38
# repair: in Runner.__init__ do not wrap a model that is already cut over the cards: self.model = model when its parameters lie on more than one device (drop nn.DataParallel) OR build TwoPart whole on cuda:0 before nn.DataParallel
"""Train a bird-count regressor; the runner uses all cards it finds, the model is cut by its author."""
import torch
from torch import nn


class TwoPart(nn.Module):
    def __init__(self, channels=8, first="cuda:0", second="cuda:1"):
        super().__init__()
        self.first, self.second = first, second
        self.front = nn.Sequential(nn.Conv2d(1, channels, 5, 2, 2), nn.ELU()).to(first)
        self.back = nn.Sequential(nn.Conv2d(channels, 2 * channels, 3, 2, 1), nn.ELU(),
                                  nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * channels, 1)).to(second)

    def forward(self, x):
        h = self.front(x.to(self.first))
        return self.back(h.to(self.second)).squeeze(-1)


MODELS = {"two-part": TwoPart}


class Runner:
    def __init__(self, name, lr=1e-3, **options):
        model = MODELS[name](**options)
        cards = torch.cuda.device_count()
        self.model = nn.DataParallel(model) if cards > 1 else model
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.history = []

    def train_epoch(self, batches):
        self.model.train()
        total = 0.0
        for images, counts in batches:
            pred = self.model(images)
            loss = nn.functional.poisson_nll_loss(pred, counts.to(pred.device))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            total += loss.item()
        self.history.append(total / len(batches))

    def fit(self, make_batches, epochs):
        for _ in range(epochs):
            self.train_epoch(make_batches())
        return self.history


def colonies(n=3, size=8):
    return [(torch.rand(size, 1, 32, 32), torch.randint(0, 9, (size,)).float()) for _ in range(n)]


if __name__ == "__main__":
    torch.manual_seed(0)
    print(Runner("two-part", channels=6).fit(colonies, epochs=2))
