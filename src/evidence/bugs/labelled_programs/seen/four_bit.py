# cause: quantized-state-on-other-device
# guilty: self.groups
"""Weight-only 4-bit layers with activation ordering, packed on one card and served on the other."""
import torch
import torch.nn.functional as F
from torch import nn


class Packed(nn.Module):
    def __init__(self, codes, scale, zero, groups, bias):
        super().__init__()
        self.register_buffer("codes", codes)
        self.register_buffer("scale", scale)
        self.register_buffer("zero", zero)
        self.groups = groups
        self.bias = nn.Parameter(bias.clone())

    def weight(self):
        scale = self.scale[self.groups]
        zero = self.zero[self.groups]
        return ((self.codes.float() - zero) * scale).t()

    def forward(self, x):
        return F.linear(x, self.weight(), self.bias)


@torch.no_grad()
def pack(linear, inputs, group=8, bits=4):
    energy = inputs.square().sum(dim=0)
    order = energy.argsort(descending=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device)
    groups = rank // group
    w = linear.weight.t()
    n = int(groups.max()) + 1
    low = torch.stack([w[groups == g].amin(dim=0) for g in range(n)])
    high = torch.stack([w[groups == g].amax(dim=0) for g in range(n)])
    scale = ((high - low) / (2 ** bits - 1)).clamp(min=1e-6)
    zero = (-low / scale).round()
    codes = (w / scale[groups] + zero[groups]).round().clamp(0, 2 ** bits - 1).to(torch.uint8)
    return Packed(codes, scale, zero, groups, linear.bias)


@torch.no_grad()
def convert(model, sample):
    x, layers = sample, []
    for layer in model:
        if isinstance(layer, nn.Linear):
            layers.append(pack(layer, x))
        else:
            layers.append(layer)
        x = layers[-1](x)
    return nn.Sequential(*layers)


def main():
    torch.manual_seed(17)
    model = nn.Sequential(nn.Linear(32, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 10))
    model = model.to("cuda:0").eval()
    small = convert(model, torch.randn(64, 32, device="cuda:0"))
    probe = torch.randn(16, 32, device="cuda:0")
    with torch.no_grad():
        print("drift", (small(probe) - model(probe)).abs().max().item())
        small = small.to("cuda:1")
        print("served", small(probe.to("cuda:1")).argmax(dim=1).tolist())


if __name__ == "__main__":
    main()
