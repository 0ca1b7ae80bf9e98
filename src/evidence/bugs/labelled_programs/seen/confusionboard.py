# cause: metric-state-device
# guilty: self.mat (mat or flat)
import torch
import torch.nn as nn


class Meter:
    registry = {}

    def __init_subclass__(cls, key, **kw):
        super().__init_subclass__(**kw)
        Meter.registry[key] = cls


class Confusion(Meter, key="confusion"):
    def __init__(self, n):
        self.n = n
        self.mat = torch.zeros(n, n, dtype=torch.long)

    def update(self, pred, gold):
        flat = torch.bincount(gold * self.n + pred, minlength=self.n ** 2)
        self.mat += flat.view(self.n, self.n)

    def value(self):
        hit = self.mat.diag().float()
        return (hit / (self.mat.sum(0) + self.mat.sum(1) - hit).clamp(min=1)).mean().item()


class Hits(Meter, key="hits"):
    def __init__(self, n):
        self.good = self.all = 0

    def update(self, pred, gold):
        self.good += (pred == gold).sum().item()
        self.all += gold.numel()

    def value(self):
        return self.good / self.all


def evaluate(model, loader, names, n, device):
    meters = {k: Meter.registry[k](n) for k in names}
    model.eval()
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            pred = model(x).argmax(-1)
            for m in meters.values():
                m.update(pred, y)
    return {k: m.value() for k, m in meters.items()}


if __name__ == "__main__":
    torch.manual_seed(0)
    net = nn.Linear(5, 4).to("cuda:0")
    loader = [(torch.randn(10, 5), torch.randint(0, 4, (10,))) for _ in range(3)]
    print(evaluate(net, loader, ["hits", "confusion"], 4, "cuda:0"))
