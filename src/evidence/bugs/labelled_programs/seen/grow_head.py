# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: fresh
"""Class-incremental learning: the output layer grows with each task."""
import torch
from torch import nn
from torch.nn import functional as F


class Incremental(nn.Module):
    def __init__(self, inp=20, feat=32):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(inp, feat), nn.ReLU(), nn.Linear(feat, feat), nn.ReLU())
        self.feat = feat
        self.head = None

    @property
    def device(self):
        return next(self.features.parameters()).device

    def add_classes(self, extra):
        old = self.head
        total = extra + (old.out_features if old is not None else 0)
        head = nn.Linear(self.feat, total).to(self.device)
        if old is not None:
            fresh = torch.zeros(extra, self.feat).cuda()
            head.weight.data = torch.cat([old.weight.data, fresh], dim=0)
            head.bias.data[: old.out_features] = old.bias.data
        self.head = head

    def forward(self, x):
        return self.head(self.features(x))


def task_data(task, per_class=10, inp=20, classes=3):
    g = torch.Generator().manual_seed(task)
    labels = torch.arange(task * classes, (task + 1) * classes).repeat_interleave(per_class)
    x = torch.randn(labels.numel(), inp, generator=g) + labels.unsqueeze(1) * 0.3
    return x, labels


def learn(model, x, y, epochs=5):
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(epochs):
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def run(device, tasks=3):
    torch.manual_seed(0)
    model = Incremental().to(device)
    for task in range(tasks):
        x, y = task_data(task)
        model.add_classes(3)
        loss = learn(model, x.to(device), y.to(device))
        print(f"task {task}: {model.head.out_features} classes, loss {loss:.4f}")


if __name__ == "__main__":
    run(torch.device("cuda:1"))
