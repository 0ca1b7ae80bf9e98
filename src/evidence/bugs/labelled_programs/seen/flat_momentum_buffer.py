# cause: optimizer-state-on-other-device
# guilty: view (self.flat)
# line: 35
# repair: in FlatMomentum keep one flat buffer per device (or make each view a zeros_like(p) buffer) OR move the gradient to the view's card and the view back to p.device when stepping
"""Seismic fault segmentation with a two-card network and a signed momentum optimiser on one flat buffer."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FlatMomentum:
    """Sign of the averaged gradient; the averages live in one contiguous buffer that is cheap to save."""

    def __init__(self, params, lr=1e-3, beta=0.9, weight_decay=0.01):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.beta, self.weight_decay = lr, beta, weight_decay
        home = self.params[0].device
        total = sum(p.numel() for p in self.params)
        self.flat = torch.zeros(total, device=home)
        self.views, offset = [], 0
        for p in self.params:
            self.views.append(self.flat[offset:offset + p.numel()].view_as(p))
            offset += p.numel()

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for p, view in zip(self.params, self.views):
            if p.grad is None:
                continue
            p.mul_(1 - self.lr * self.weight_decay)
            view.mul_(self.beta).add_(p.grad, alpha=1 - self.beta)
            p.add_(view.sign(), alpha=-self.lr)

    def state_dict(self):
        return {"flat": self.flat.cpu(), "lr": self.lr}

    def load_state_dict(self, state):
        self.flat.copy_(state["flat"])
        self.lr = state["lr"]


class Down(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU())

    def forward(self, x):
        return F.max_pool2d(self.conv(x), 2)


class Up(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU())

    def forward(self, x):
        return self.conv(F.interpolate(x, scale_factor=2.0))


class FaultNet(nn.Module):
    """Contracting half on one card, expanding half on the next."""

    def __init__(self, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.cards = cards
        self.contract = nn.Sequential(Down(1, 8), Down(8, 16)).to(cards[0])
        self.expand = nn.Sequential(Up(16, 8), Up(8, 8)).to(cards[1])
        self.out = nn.Conv2d(8, 1, 1).to(cards[1])

    def forward(self, section):
        x = self.contract(section.to(self.cards[0]))
        return self.out(self.expand(x.to(self.cards[1])))


def synthetic_sections(count, size=32):
    g = torch.Generator().manual_seed(2)
    for _ in range(count):
        section = torch.randn(4, 1, size, size, generator=g)
        faults = torch.zeros(4, 1, size, size)
        for row, cut in zip(faults, torch.randint(4, size - 4, (4,), generator=g).tolist()):
            row[0, :, cut] = 1
        yield section + faults, faults


def dice(logits, faults):
    p = logits.sigmoid()
    return 1 - (2 * (p * faults).sum() + 1) / (p.sum() + faults.sum() + 1)


def main():
    torch.manual_seed(0)
    model = FaultNet()
    optimizer = FlatMomentum(model.parameters(), lr=5e-4)
    print("buffer", optimizer.flat.numel(), "values")
    for step, (section, faults) in enumerate(synthetic_sections(6)):
        logits = model(section)
        faults = faults.to(logits.device)
        loss = F.binary_cross_entropy_with_logits(logits, faults) + dice(logits, faults)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, round(loss.item(), 4))
    print("saved", optimizer.state_dict()["flat"].norm().item())


if __name__ == "__main__":
    main()
