# cause: input-not-on-embedding-device
# guilty: img
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def make_split(n):
    x = torch.rand(n, 3, 32, 32)
    y = (x.mean((1, 2, 3)) * 10).long().clamp(0, 9)
    return TensorDataset(x, y)


train_dl = DataLoader(make_split(128), batch_size=32, shuffle=True)
val_dl = DataLoader(make_split(64), batch_size=64)

net = nn.Sequential(
    nn.Conv2d(3, 16, 3, stride=2), nn.BatchNorm2d(16), nn.GELU(),
    nn.Conv2d(16, 32, 3, stride=2), nn.GELU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2)

for epoch in range(2):
    net.train()
    total = 0.0
    for x, y in train_dl:
        x = x.to(device, non_blocking=True)
        y = y.to(device, non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    sched.step()

    net.eval()
    right, seen = 0, 0
    with torch.no_grad():
        for img, lab in val_dl:
            scores = net(img)
            right += (scores.argmax(1).cpu() == lab).sum().item()
            seen += len(lab)
    print(f"{epoch}: train {total:.3f} val acc {right / seen:.2%}")
