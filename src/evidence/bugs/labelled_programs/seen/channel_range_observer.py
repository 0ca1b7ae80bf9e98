# cause: hard-coded-device|quantized-state-on-other-device
# guilty: floor (device)
# line: 37
# repair: in ChannelObserver.qparams take the device of the statistics, device = self.low.device, instead of the bare name "cuda", which is the current card, OR torch.clamp(scale, min=self.eps)
"""Post-training quantisation of a keyword classifier; the observers collect channel ranges on the job's card."""
import argparse

import torch
import torch.nn as nn


class ChannelObserver(nn.Module):
    def __init__(self, channels, bits=8, eps=1e-6, momentum=0.9):
        super().__init__()
        self.bits, self.eps, self.momentum = bits, eps, momentum
        self.register_buffer("low", torch.zeros(channels))
        self.register_buffer("high", torch.zeros(channels))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        flat = x.detach().transpose(0, 1).flatten(1)
        low, high = flat.amin(1), flat.amax(1)
        if self.seen == 0:
            self.low.copy_(low)
            self.high.copy_(high)
        else:
            self.low.lerp_(low, 1 - self.momentum)
            self.high.lerp_(high, 1 - self.momentum)
        self.seen += 1
        return x

    def qparams(self):
        device = "cuda" if self.low.is_cuda else "cpu"
        levels = 2 ** self.bits - 1
        scale = (self.high.clamp(min=0) - self.low.clamp(max=0)) / levels
        floor = torch.full((1,), self.eps, device=device)
        scale = torch.maximum(scale, floor)
        zero = (-self.low.clamp(max=0) / scale).round()
        return scale, zero


class FakeQuant(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.observer = ChannelObserver(channels)
        self.scale = self.zero = None

    def freeze(self):
        self.scale, self.zero = self.observer.qparams()

    def forward(self, x):
        if self.scale is None:
            return self.observer(x)
        shape = (1, -1) + (1,) * (x.dim() - 2)
        s, z = self.scale.view(shape), self.zero.view(shape)
        return ((x / s + z).round().clamp(0, 255) - z) * s


class KeywordNet(nn.Module):
    def __init__(self, bands=40, words=12):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv1d(bands, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU(), FakeQuant(32),
            nn.Conv1d(32, 48, 5, 2, 2), nn.BatchNorm1d(48), nn.ReLU(), FakeQuant(48))
        self.head = nn.Linear(48, words)

    def forward(self, mels):
        return self.head(self.features(mels).mean(-1))


def batches(count, device, size=16):
    for _ in range(count):
        yield torch.randn(size, 40, 50).to(device), torch.randint(0, 12, (size,)).to(device)


def train(model, device, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for mels, words in batches(steps, device):
        loss = nn.functional.cross_entropy(model(mels), words)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


@torch.no_grad()
def quantise(model, device, steps=4):
    model.eval()
    for mels, _ in batches(steps, device):
        model(mels)
    for module in model.modules():
        if isinstance(module, FakeQuant):
            module.freeze()
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:1")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device(args.device)
    model = KeywordNet().to(device)
    print("loss", round(train(model, device, 5), 3))
    quantise(model, device)
    hits = [(model(m).argmax(-1) == w).float().mean().item() for m, w in batches(3, device)]
    print("accuracy after quantisation", round(sum(hits) / len(hits), 3))


if __name__ == "__main__":
    main()
