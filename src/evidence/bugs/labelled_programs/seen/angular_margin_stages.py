# cause: loss-or-label-on-other-device
# guilty: labels (labels[:, None], index)
# line: 31
# repair: in Recipe.run_step send the labels to the logits in place of the input card: criterion(logits, labels.to(logits.device)) (CardLoader puts both on the first card) OR in ArcMargin.forward labels = labels.to(cosine.device)
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

LOSSES = {}


def loss(name):
    def wrap(cls):
        LOSSES[name] = cls
        return cls
    return wrap


@loss("arc")
class ArcMargin(nn.Module):
    def __init__(self, scale=16.0, margin=0.3):
        super().__init__()
        self.scale = scale
        self.cos_m, self.sin_m = math.cos(margin), math.sin(margin)

    def forward(self, cosine, labels):
        sine = (1 - cosine.pow(2)).clamp(min=1e-7).sqrt()
        phi = cosine * self.cos_m - sine * self.sin_m
        chosen = torch.zeros_like(cosine).scatter_(1, labels[:, None], 1.0)
        logits = self.scale * (chosen * phi + (1 - chosen) * cosine)
        return F.cross_entropy(logits, labels)


@loss("softmax")
class PlainSoftmax(nn.Module):
    def forward(self, cosine, labels):
        return F.cross_entropy(16.0 * cosine, labels)


class WhaleNet(nn.Module):
    """Identities of whales by their flukes; the class matrix is too wide for the first card."""

    def __init__(self, n_ids, dim=32):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            nn.Linear(64, dim),
        ).to("cuda:0")
        self.centres = nn.Parameter(torch.randn(n_ids, dim, device="cuda:1"))

    def forward(self, img):
        code = F.normalize(self.trunk(img), dim=-1)
        return F.linear(code.to(self.centres.device), F.normalize(self.centres, dim=-1))


class CardLoader:
    def __init__(self, data, device):
        self.data, self.device = data, device

    def __iter__(self):
        for item in self.data:
            yield tuple(t.to(self.device, non_blocking=True) for t in item)


class Recipe:
    def __init__(self, n_ids, criterion="arc"):
        self.model = WhaleNet(n_ids)
        self.criterion = LOSSES[criterion]()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)

    def run_step(self, img, labels):
        logits = self.model(img)
        value = self.criterion(logits, labels)
        self.opt.zero_grad()
        value.backward()
        self.opt.step()
        return value.item(), (logits.argmax(1).cpu() == labels.cpu()).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    flukes = [(torch.randn(16, 1, 24, 24), torch.randint(0, 50, (16,))) for _ in range(3)]
    recipe = Recipe(n_ids=50)
    for img, labels in CardLoader(flukes, "cuda:0"):
        print("loss %.3f acc %.2f" % recipe.run_step(img, labels))
