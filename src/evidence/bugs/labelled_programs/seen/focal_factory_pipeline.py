# cause: loss-or-label-on-other-device|hard-coded-device
# guilty: alpha
"""Defect classification with long-tailed classes; trunk and head sit on different cards."""
import torch
import torch.nn as nn
import torch.nn.functional as F

LOSSES = {}


def loss_factory(name):
    def add(fn):
        LOSSES[name] = fn
        return fn
    return add


@loss_factory("focal")
def focal(counts, device, gamma=2.0, beta=0.99):
    effective = 1 - beta ** counts.float()
    alpha = ((1 - beta) / effective).to(device)
    alpha = alpha / alpha.sum() * len(counts)

    def criterion(logits, target):
        logp = F.log_softmax(logits, dim=-1)
        picked = logp.gather(1, target.unsqueeze(1)).squeeze(1)
        focus = (1 - picked.exp()) ** gamma
        return -(focus * F.one_hot(target, logits.shape[1]).matmul(alpha) * picked).mean()

    return criterion


@loss_factory("weighted")
def weighted(counts, device):
    alpha = (counts.sum() / counts.float()).to(device)

    def criterion(logits, target):
        return F.cross_entropy(logits, target, weight=alpha)

    return criterion


def build_loss(config, counts, device):
    return LOSSES[config["loss"]](counts, device)


class DefectNet(nn.Module):
    def __init__(self, classes, devices):
        super().__init__()
        self.in_device, self.out_device = (torch.device(d) for d in devices)
        self.trunk = nn.Sequential(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(),
                                   nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()).to(self.in_device)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, classes)).to(self.out_device)

    def forward(self, x):
        return self.head(self.trunk(x.to(self.in_device)).to(self.out_device))


class Recipe:
    def __init__(self, config):
        self.config = config

    def build(self, labels):
        counts = torch.bincount(labels, minlength=self.config["classes"]).clamp(min=1)
        model = DefectNet(self.config["classes"], self.config["devices"])
        criterion = build_loss(self.config, counts, self.config["device"])
        optimizer = torch.optim.AdamW(model.parameters(), lr=self.config["lr"])
        return model, criterion, optimizer

    def run(self, images, labels):
        model, criterion, optimizer = self.build(labels)
        for epoch in range(self.config["epochs"]):
            for rows in torch.randperm(len(labels)).split(16):
                logits = model(images[rows])
                loss = criterion(logits, labels[rows].to(logits.device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print("epoch", epoch, "loss", loss.item())


CONFIG = {"classes": 5, "device": "cuda:0", "devices": ("cuda:0", "cuda:1"), "loss": "weighted", "lr": 1e-3,
          "epochs": 2}

if __name__ == "__main__":
    torch.manual_seed(0)
    labels = torch.distributions.Geometric(0.5).sample((64,)).clamp(max=4).long()
    Recipe(CONFIG).run(torch.randn(64, 1, 16, 16), labels)
