# cause: loss-or-label-on-other-device
# guilty: self.criterion.weight
import torch
import torch.nn as nn
from dataclasses import dataclass


@dataclass
class Config:
    classes: int = 6
    device: str = "cuda:0"
    beta: float = 0.99
    epochs: int = 2


def effective_weights(counts, beta):
    eff = (1 - beta ** counts.float()) / (1 - beta)
    w = 1 / eff.clamp(min=1e-3)
    return w / w.sum() * counts.numel()


class Lesions(torch.utils.data.Dataset):
    def __init__(self, n, classes):
        freq = torch.tensor([2.0 ** -i for i in range(classes)])
        self.y = torch.multinomial(freq, n, replacement=True)
        self.x = torch.randn(n, 3, 16, 16) + self.y.view(-1, 1, 1, 1) * 0.2

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]

    def histogram(self, classes):
        return torch.bincount(self.y, minlength=classes)


class LitClassifier:
    def __init__(self, cfg, counts):
        self.cfg = cfg
        self.net = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 16, 3, 2), nn.ReLU(),
                                 nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, cfg.classes))
        self.criterion = nn.CrossEntropyLoss(weight=effective_weights(counts, cfg.beta), label_smoothing=0.05)

    def training_step(self, batch):
        x, y = batch
        return self.criterion(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=1e-3)


def fit(lit, loader):
    lit.net.to(lit.cfg.device)
    opt = lit.configure_optimizers()
    for epoch in range(lit.cfg.epochs):
        for batch in loader:
            batch = [b.to(lit.cfg.device, non_blocking=True) for b in batch]
            loss = lit.training_step(batch)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", epoch, loss.item())


cfg = Config()
ds = Lesions(96, cfg.classes)
fit(LitClassifier(cfg, ds.histogram(cfg.classes)), torch.utils.data.DataLoader(ds, 32, shuffle=True))
