# cause: generator-or-default-device
# guilty: ?
"""Leaf disease classifier, everything lives on the card from the first line on."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.set_default_device("cuda")
torch.manual_seed(21)


def synthetic_leaves(n=120, classes=4):
    label = torch.randint(classes, (n,))
    image = torch.rand(n, 3, 16, 16)
    image[torch.arange(n), label % 3] += 0.5 * (label[:, None, None] + 1)
    return TensorDataset(image, label)


def build(classes=4):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, classes),
    )


def run_epoch(model, loader, opt=None):
    model.train(opt is not None)
    hits = seen = 0
    for image, label in loader:
        with torch.set_grad_enabled(opt is not None):
            logits = model(image)
            loss = F.cross_entropy(logits, label)
        if opt is not None:
            opt.zero_grad()
            loss.backward()
            opt.step()
        hits += int((logits.argmax(1) == label).sum())
        seen += len(label)
    return hits / seen


full = synthetic_leaves()
model = build()
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
print("untrained", run_epoch(model, [full[:40]]))

train_part, held_part = random_split(full, [100, 20])
train_loader = DataLoader(train_part, batch_size=20)
held_loader = DataLoader(held_part, batch_size=20)
for epoch in range(3):
    acc = run_epoch(model, train_loader, opt)
    print(epoch, f"train {acc:.2f} held out {run_epoch(model, held_loader):.2f}")
