# cause: quantized-state-on-other-device
# guilty: self.min_val
"""Post-training calibration of activation ranges with forward hooks."""
import torch
from torch import nn


class ChannelObserver:
    def __init__(self, channels, bits=8):
        self.bits = bits
        self.min_val = torch.full((channels,), float("inf"))
        self.max_val = torch.full((channels,), float("-inf"))

    def __call__(self, module, args, output):
        x = output.detach().transpose(0, 1).flatten(1)
        lo, hi = x.amin(dim=1), x.amax(dim=1)
        self.min_val = torch.minimum(self.min_val, lo)
        self.max_val = torch.maximum(self.max_val, hi)

    def qparams(self):
        scale = (self.max_val - self.min_val).clamp(min=1e-6) / (2 ** self.bits - 1)
        zero = (-self.min_val / scale).round()
        return scale, zero


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 3, padding=1)
        self.c2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.fc = nn.Linear(16, 4)

    def forward(self, x):
        x = torch.relu(self.c1(x))
        x = torch.relu(self.c2(x))
        return self.fc(x.mean((2, 3)))


def calibrate(model, batches):
    observers, handles = {}, []
    for name, m in model.named_modules():
        if isinstance(m, nn.Conv2d):
            observers[name] = ChannelObserver(m.out_channels)
            handles.append(m.register_forward_hook(observers[name]))
    with torch.no_grad():
        for x in batches:
            model(x.to(next(model.parameters()).device))
    for h in handles:
        h.remove()
    return {name: o.qparams() for name, o in observers.items()}


def fake_quant(x, scale, zero):
    s, z = scale.view(1, -1, 1, 1).to(x.device), zero.view(1, -1, 1, 1).to(x.device)
    return ((x / s + z).round().clamp(0, 255) - z) * s


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    model = ConvNet().to(device).eval()
    x = torch.randn(4, 1, 12, 12, device=device)
    with torch.no_grad():
        ref = model(x)
    params = calibrate(model, (torch.randn(8, 1, 12, 12) for _ in range(3)))
    for name, (scale, zero) in params.items():
        m = model.get_submodule(name)
        m.register_forward_hook(lambda mod, a, out, s=scale, z=zero: fake_quant(out, s, z))
    with torch.no_grad():
        print("drift", (model(x) - ref).abs().mean().item())


if __name__ == "__main__":
    main()
