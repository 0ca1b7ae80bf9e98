# cause: loss-or-label-on-other-device|data-parallel-replica-device
# guilty: target (labels)
# line: 43
# repair: move the labels to the card where DataParallel gathers: labels.to(logits.device) in epoch() OR drop output_device (or set it to 0) so that logits come back to the card of the labels OR compute the loss inside the wrapped module
"""Leaf disease classifier trained with DataParallel; outputs are gathered on the emptier card."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduction=4):
        super().__init__()
        self.gate = nn.Sequential(
            nn.Linear(channels, channels // reduction), nn.ReLU(), nn.Linear(channels // reduction, channels), nn.Sigmoid()
        )

    def forward(self, x):
        return x * self.gate(x.mean((2, 3)))[:, :, None, None]


class LeafNet(nn.Module):
    def __init__(self, classes=6, width=24):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.SiLU())
        self.body = nn.Sequential(
            nn.Conv2d(width, 2 * width, 3, 2, 1), nn.BatchNorm2d(2 * width), nn.SiLU(), SqueezeExcite(2 * width)
        )
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


class FocalLoss(nn.Module):
    def __init__(self, gamma=1.5):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits, target):
        log_p = F.log_softmax(logits, dim=1)
        nll = F.nll_loss(log_p, target, reduction="none")
        return ((1 - torch.exp(-nll)) ** self.gamma * nll).mean()


class Session:
    def __init__(self, master, gather_on, lr=2e-3):
        self.master = torch.device("cuda", master)
        self.net = nn.DataParallel(
            LeafNet().to(self.master), device_ids=[master, gather_on], output_device=gather_on
        )
        self.criterion = FocalLoss()
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=lr)

    def epoch(self, loader):
        self.net.train()
        total = count = 0
        for images, labels in loader:
            images = images.to(self.master, non_blocking=True)
            labels = labels.to(self.master, non_blocking=True)
            logits = self.net(images)
            loss = self.criterion(logits, labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(images)
            count += len(images)
        return total / count

    @torch.no_grad()
    def predict(self, loader):
        self.net.eval()
        guesses = [self.net(images.to(self.master)).argmax(1).cpu() for images, _ in loader]
        return torch.cat(guesses)


def make_leaves(n, seed):
    g = torch.Generator().manual_seed(seed)
    labels = torch.randint(6, (n,), generator=g)
    tint = torch.linspace(-1, 1, 6)[labels].view(-1, 1, 1, 1)
    return TensorDataset(tint + 0.5 * torch.randn(n, 3, 32, 32, generator=g), labels)


def main():
    torch.manual_seed(0)
    session = Session(master=0, gather_on=1)
    train_loader = DataLoader(make_leaves(96, 1), batch_size=16, shuffle=True)
    test_set = make_leaves(48, 2)
    test_loader = DataLoader(test_set, batch_size=16)
    chance = (session.predict(test_loader) == test_set.tensors[1]).float().mean().item()
    print(f"untrained {chance:.3f}")
    for epoch in range(3):
        print(f"epoch {epoch} loss {session.epoch(train_loader):.4f}")
    accuracy = (session.predict(test_loader) == test_set.tensors[1]).float().mean().item()
    print(f"trained {accuracy:.3f}")


if __name__ == "__main__":
    main()
