# cause: loss-or-label-on-other-device
# guilty: criterion
"""Camera-trap species classifier with a long-tailed label distribution."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SPECIES = ["deer", "boar", "fox", "lynx", "badger"]
device = torch.device("cuda:0")
torch.manual_seed(13)


def make_split(n):
    probs = torch.tensor([0.5, 0.25, 0.15, 0.04, 0.06])
    labels = torch.multinomial(probs, n, replacement=True)
    images = torch.randn(n, 3, 32, 32) + labels.view(-1, 1, 1, 1) * 0.1
    return TensorDataset(images, labels)


class SmallNet(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )
        self.head = nn.Linear(32, n_classes)

    def forward(self, x):
        return self.head(self.features(x))


def inverse_frequency(dataset, n_classes):
    counts = torch.bincount(dataset.tensors[1], minlength=n_classes).float()
    w = counts.sum() / (counts.clamp(min=1) * n_classes)
    return w / w.mean()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    hits = torch.zeros(len(SPECIES), device=device)
    seen = torch.zeros(len(SPECIES), device=device)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        pred = model(x).argmax(1)
        seen += torch.bincount(y, minlength=len(SPECIES))
        hits += torch.bincount(y[pred == y], minlength=len(SPECIES))
    return (hits / seen.clamp(min=1)).cpu().tolist()


def main():
    train, val = make_split(256), make_split(64)
    train_loader = DataLoader(train, batch_size=32, shuffle=True)
    val_loader = DataLoader(val, batch_size=32)

    model = SmallNet(len(SPECIES)).to(device)
    criterion = nn.CrossEntropyLoss(weight=inverse_frequency(train, len(SPECIES)), label_smoothing=0.05)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    print("before training", evaluate(model, val_loader))
    for epoch in range(2):
        model.train()
        running = torch.zeros((), device=device)
        for x, y in train_loader:
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            logits = model(x)
            loss = criterion(logits, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            running += loss.detach()
        print(f"epoch {epoch} loss {running.item() / len(train_loader):.3f}")
    for name, recall in zip(SPECIES, evaluate(model, val_loader)):
        print(f"{name:8s} {recall:.2f}")


if __name__ == "__main__":
    main()
