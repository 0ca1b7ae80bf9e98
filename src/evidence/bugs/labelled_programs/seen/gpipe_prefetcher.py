# cause: loss-or-label-on-other-device
# guilty: target (F.cross_entropy(out, target) or y)
"""Hand-written GPipe: two stages, micro-batches, gradient accumulation."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class RandomImages(Dataset):
    def __init__(self, n=32, classes=10):
        g = torch.Generator().manual_seed(0)
        self.images = torch.rand(n, 3, 32, 32, generator=g)
        self.labels = torch.randint(0, classes, (n,), generator=g)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"image": self.images[i], "label": self.labels[i]}


class Prefetcher:
    """Moves the whole batch ahead of time, so that the first stage never waits for a copy."""

    def __init__(self, loader, device):
        self.loader, self.device = loader, device

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        ahead = None
        for batch in self.loader:
            moved = {k: v.to(self.device, non_blocking=True) for k, v in batch.items()}
            if ahead is not None:
                yield ahead
            ahead = moved
        if ahead is not None:
            yield ahead


def conv_block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=2, padding=1), nn.GroupNorm(4, cout), nn.ReLU())


class Pipeline(nn.Module):
    def __init__(self, devices, micro_batches=4, classes=10):
        super().__init__()
        self.devices = devices
        self.micro_batches = micro_batches
        self.stage0 = nn.Sequential(conv_block(3, 16), conv_block(16, 32)).to(devices[0])
        self.stage1 = nn.Sequential(
            conv_block(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes)
        ).to(devices[1])

    def forward(self, images):
        return self.stage1(self.stage0(images).to(self.devices[1]))

    def step(self, batch):
        images = batch["image"].chunk(self.micro_batches)
        labels = batch["label"].chunk(self.micro_batches)
        hidden = self.stage0(images[0]).to(self.devices[1])
        total = 0.0
        for i, target in enumerate(labels):
            current = hidden
            if i + 1 < len(images):
                hidden = self.stage0(images[i + 1]).to(self.devices[1])
            out = self.stage1(current)
            loss = F.cross_entropy(out, target) / self.micro_batches
            loss.backward()
            total += loss.item()
        return total


def main():
    devices = [torch.device("cuda:0"), torch.device("cuda:1")]
    model = Pipeline(devices)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(RandomImages(), batch_size=16, shuffle=True)
    batches = Prefetcher(loader, devices[0])
    for epoch in range(2):
        running = 0.0
        for batch in batches:
            optimizer.zero_grad()
            running += model.step(batch)
            optimizer.step()
        print(f"epoch {epoch}: {running / len(batches):.3f}")


if __name__ == "__main__":
    main()
