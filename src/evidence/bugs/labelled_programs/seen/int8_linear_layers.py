# cause: quantized-state-on-other-device
# guilty: self.scale
import copy

import torch
import torch.nn as nn


class Int8Linear(nn.Module):
    """Weight-only quantisation, one scale per output row."""

    def __init__(self, linear):
        super().__init__()
        w = linear.weight.detach()
        scale = w.abs().amax(dim=1, keepdim=True).clamp(min=1e-8) / 127
        self.register_buffer("qweight", torch.round(w / scale).to(torch.int8))
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach().clone())
        self.scale = scale

    def forward(self, x):
        weight = self.qweight.to(x.dtype) * self.scale
        return nn.functional.linear(x, weight, self.bias)


def quantise(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            quantise(child)
    return module


class Mixer(nn.Module):
    def __init__(self, tokens=6, d=12):
        super().__init__()
        self.token = nn.Sequential(nn.Linear(tokens, 16), nn.GELU(), nn.Linear(16, tokens))
        self.channel = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 24), nn.GELU(), nn.Linear(24, d))

    def forward(self, x):
        x = x + self.token(x.transpose(1, 2)).transpose(1, 2)
        return x + self.channel(x)


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    reference = nn.Sequential(Mixer(), Mixer()).to("cuda:0").eval()
    small = quantise(copy.deepcopy(reference)).to("cuda:1").eval()
    size = sum(b.numel() * b.element_size() for b in small.buffers())
    print("bytes of the quantised model", size)
    worst = 0.0
    for _ in range(3):
        x = torch.randn(2, 6, 12)
        want = reference(x.to("cuda:0")).cpu()
        got = small(x.to("cuda:1")).cpu()
        worst = max(worst, (want - got).abs().max().item())
    print("largest difference", worst)


main()
