# cause: module-left-on-other-device|dispatched-model-moved|hard-coded-device
# guilty: h.to(self.second) (h, self.tail)
# line: 22
# repair: in main drop the device, `AveragedModel(model)`, so that the copy keeps both stages where they are OR in TwoStageNet.forward use the device of the stage's own weights, `h.to(next(self.tail.parameters()).device)`
"""Stochastic weight averaging of a two-stage image classifier, evaluated with the average."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import SWALR, AveragedModel


class TwoStageNet(nn.Module):
    def __init__(self, classes, first, second):
        super().__init__()
        self.first, self.second = first, second
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)).to(first)
        self.tail = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                                  nn.Flatten(), nn.Linear(32, classes)).to(second)

    def forward(self, x):
        h = self.stem(x.to(self.first))
        return self.tail(h.to(self.second))


def toy_images(n, classes, seed):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (n,), generator=g)
    images = torch.randn(n, 3, 16, 16, generator=g) + labels.view(-1, 1, 1, 1)
    return torch.utils.data.TensorDataset(images, labels)


def train_epoch(model, loader, optimizer):
    model.train()
    for images, labels in loader:
        logits = model(images)
        loss = F.cross_entropy(logits, labels.to(logits.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hits = total = 0
    for images, labels in loader:
        pred = model(images).argmax(1).cpu()
        hits += (pred == labels).sum().item()
        total += labels.numel()
    return hits / total


def main():
    torch.manual_seed(0)
    first, second = torch.device("cuda:0"), torch.device("cuda:1")
    model = TwoStageNet(4, first, second)
    averaged = AveragedModel(model, device=first)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = SWALR(optimizer, swa_lr=0.02)
    train = torch.utils.data.DataLoader(toy_images(64, 4, 0), batch_size=16, shuffle=True)
    test = torch.utils.data.DataLoader(toy_images(32, 4, 1), batch_size=16)
    for epoch in range(3):
        loss = train_epoch(model, train, optimizer)
        averaged.update_parameters(model)
        schedule.step()
        print("epoch", epoch, "loss", round(loss, 3), "accuracy", evaluate(model, test))
    print("averaged accuracy", evaluate(averaged, test))


if __name__ == "__main__":
    main()
