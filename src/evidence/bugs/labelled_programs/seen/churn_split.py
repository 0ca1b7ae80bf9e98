# cause: generator-or-default-device|generator-on-other-device
# guilty: split_rng
"""Small churn classifier; everything is created on the accelerator by default."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def table(rows=200, columns=8):
    x = torch.randn(rows, columns)
    y = (x[:, :3].sum(1) + 0.3 * torch.randn(rows) > 0).float()
    return TensorDataset(x, y)


def loaders(data, device, seed=7, holdout=0.2):
    split_rng = torch.Generator().manual_seed(seed)
    order_rng = torch.Generator(device=device).manual_seed(seed)
    held = int(len(data) * holdout)
    fit, test = random_split(data, [len(data) - held, held], generator=split_rng)
    return (DataLoader(fit, batch_size=32, shuffle=True, generator=order_rng),
            DataLoader(test, batch_size=64))


def accuracy(model, loader):
    hits = total = 0
    with torch.no_grad():
        for x, y in loader:
            hits += ((model(x).squeeze(-1) > 0) == (y > 0.5)).sum().item()
            total += len(y)
    return hits / total


def main(device="cuda"):
    torch.set_default_device(device)
    torch.manual_seed(0)
    train, test = loaders(table(), device)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(3):
        for x, y in train:
            loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(-1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
    print("accuracy", accuracy(model, test))


if __name__ == "__main__":
    main()
