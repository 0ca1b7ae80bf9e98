# cause: metric-state-device
# guilty: self.value["inter"] (self.value, the state "inter")
# line: 39
# repair: in Meter.reset make the fresh state on the current device: default.clone().to(self.device) (Meter.to must then remember self.device = device) OR in reset use torch.zeros_like(self.value[name]) OR call meters.to(device) again after each reset
import torch
import torch.nn as nn
import torch.nn.functional as F


class Meter:
    """Accumulates sums between calls of reset()."""

    def __init__(self):
        self._defaults = {}
        self.value = {}

    def add_state(self, name, default):
        self._defaults[name] = default
        self.value[name] = default.clone()

    def to(self, device):
        self.value = {k: v.to(device) for k, v in self.value.items()}
        return self

    def reset(self):
        self.value = {k: v.clone() for k, v in self._defaults.items()}


class MeanIoU(Meter):
    def __init__(self, n_class):
        super().__init__()
        self.n_class = n_class
        self.add_state("inter", torch.zeros(n_class))
        self.add_state("union", torch.zeros(n_class))

    def update(self, logits, target):
        guess = F.one_hot(logits.argmax(1), self.n_class).flatten(0, -2).bool()
        truth = F.one_hot(target, self.n_class).flatten(0, -2).bool()
        self.value["inter"] += (guess & truth).sum(0)
        self.value["union"] += (guess | truth).sum(0)

    def compute(self):
        return (self.value["inter"] / self.value["union"].clamp(min=1)).mean().item()


class MeterGroup:
    def __init__(self, **meters):
        self.meters = meters

    def to(self, device):
        for meter in self.meters.values():
            meter.to(device)
        return self

    def update(self, logits, target):
        for meter in self.meters.values():
            meter.update(logits, target)

    def compute_and_reset(self):
        out = {name: meter.compute() for name, meter in self.meters.items()}
        for meter in self.meters.values():
            meter.reset()
        return out


class GlacierSegmenter(nn.Module):
    def __init__(self, bands=4, n_class=3):
        super().__init__()
        self.down = nn.Conv2d(bands, 12, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(12, n_class, 2, stride=2)

    def forward(self, x):
        return self.up(F.elu(self.down(x)))


def tiles(n):
    for _ in range(n):
        x = torch.randn(4, 4, 16, 16)
        yield x, (x[:, 0] > 0).long() + (x[:, 1] > 1).long()


def main(device="cuda:0", epochs=2):
    torch.manual_seed(0)
    model = GlacierSegmenter().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    meters = MeterGroup(iou=MeanIoU(3)).to(device)
    for epoch in range(epochs):
        for x, y in tiles(3):
            x, y = x.to(device), y.to(device)
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            meters.update(logits.detach(), y)
        print(epoch, meters.compute_and_reset())


if __name__ == "__main__":
    main()
