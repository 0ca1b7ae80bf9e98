# cause: loss-or-label-on-other-device|extra-input-on-wrong-device
# guilty: perm (y[perm], y, labels)
# line: 52
# repair: move the labels to the device of the images before the augmentations (y = y.to(x.device) in Augmenter.__call__ or in the loader loop of main) OR y[perm.to(y.device)]
"""Augmentations run on the GPU over whole batches; registry plus builder from a config."""
import torch
import torch.nn as nn
import torch.nn.functional as F

AUGMENTS = {}


def augment(cls):
    AUGMENTS[cls.__name__.lower()] = cls
    return cls


@augment
class Flip:
    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, x, y):
        chosen = torch.rand(x.size(0), device=x.device) < self.p
        return torch.where(chosen[:, None, None, None], x.flip(-1), x), y


@augment
class Erase:
    def __init__(self, size=4):
        self.size = size

    def __call__(self, x, y):
        top, left = torch.randint(0, x.size(-1) - self.size, (2,)).tolist()
        x = x.clone()
        x[:, :, top:top + self.size, left:left + self.size] = 0
        return x, y


@augment
class CutMix:
    def __init__(self, alpha=1.0, classes=10):
        self.beta, self.classes = torch.distributions.Beta(alpha, alpha), classes

    def __call__(self, x, y):
        lam = float(self.beta.sample())
        perm = torch.randperm(x.size(0), device=x.device)
        width = int(x.size(-1) * (1 - lam))
        x = x.clone()
        x[..., :width] = x[perm][..., :width]
        share = 1 - width / x.size(-1)
        return x, self.soften(y) * share + self.soften(y[perm]) * (1 - share)

    def soften(self, y):
        return F.one_hot(y, self.classes).float() if y.dim() == 1 else y


class Augmenter:
    def __init__(self, config):
        self.steps = [AUGMENTS[name](**options) for name, options in config]

    def __call__(self, x, y):
        for step in self.steps:
            x, y = step(x, y)
        return x, y


class Learner:
    def __init__(self, model, augmenter, device):
        self.model, self.augmenter, self.device = model.to(device), augmenter, device
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def step(self, x, y):
        x, y = self.augmenter(x.to(self.device), y)
        loss = F.cross_entropy(self.model(x), y.to(self.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    config = [("flip", {}), ("erase", {"size": 3}), ("cutmix", {"alpha": 0.8})]
    net = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    net(torch.zeros(1, 3, 16, 16))
    learner = Learner(net, Augmenter(config), "cuda:0")
    for _ in range(3):
        print(learner.step(torch.rand(8, 3, 16, 16), torch.randint(0, 10, (8,))))
