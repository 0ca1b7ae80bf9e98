# cause: metric-state-device
# guilty: self.mat
import torch
import torch.nn as nn
import torch.nn.functional as F


class ConfusionMatrix:
    def __init__(self, n):
        self.n = n
        self.reset()

    def reset(self):
        self.mat = torch.zeros(self.n, self.n, dtype=torch.long)

    def __call__(self, pred, target):
        flat = target.flatten() * self.n + pred.flatten()
        self.mat += torch.bincount(flat, minlength=self.n ** 2).view(self.n, self.n)

    def iou(self):
        inter = self.mat.diag().float()
        return (inter / (self.mat.sum(0) + self.mat.sum(1) - inter).clamp(min=1)).mean()


class Module(nn.Module):
    device = torch.device("cpu")

    def to(self, device):
        self.device = torch.device(device)
        return super().to(device)


class LandCover(Module):
    def __init__(self, classes=4):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(5, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, classes, 1))
        self.metrics = {"val": ConfusionMatrix(classes)}

    def training_step(self, x, y):
        return F.cross_entropy(self.net(x), y)

    def validation_step(self, x, y):
        self.metrics["val"](self.net(x).argmax(1), y)

    def on_validation_end(self):
        score = self.metrics["val"].iou().item()
        self.metrics["val"].reset()
        return score


def tiles(k, n=4):
    for _ in range(k):
        y = torch.randint(0, 4, (n, 8, 8)).repeat_interleave(2, 1).repeat_interleave(2, 2)
        x = torch.randn(n, 5, 16, 16)
        x[:, 0] += y
        yield x, y


class Loop:
    def __init__(self, device, epochs=2):
        self.device, self.epochs = device, epochs

    def fit(self, lit):
        lit.to(self.device)
        opt = torch.optim.Adam(lit.parameters(), 1e-2)
        for e in range(self.epochs):
            for x, y in tiles(3):
                loss = lit.training_step(x.to(lit.device), y.to(lit.device))
                opt.zero_grad()
                loss.backward()
                opt.step()
            with torch.no_grad():
                for x, y in tiles(2):
                    lit.validation_step(x.to(lit.device), y.to(lit.device))
            print(e, loss.item(), lit.on_validation_end())


Loop("cuda").fit(LandCover())
