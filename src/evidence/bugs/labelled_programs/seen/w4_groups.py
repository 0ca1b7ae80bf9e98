# cause: quantized-state-on-other-device
# guilty: self.scales (scales or self.zeros)
"""4-bit group quantisation for the linears of a small decoder, torch only."""
import torch
from torch import nn


class W4Linear(nn.Module):
    def __init__(self, fin, fout, group):
        super().__init__()
        self.fin, self.fout, self.group = fin, fout, group
        self.register_buffer("codes", torch.zeros(fout, fin, dtype=torch.uint8))
        self.scales = None
        self.zeros = None
        self.bias = None

    @classmethod
    def quantize(cls, lin, group=16):
        self = cls(lin.in_features, lin.out_features, group)
        w = lin.weight.detach().view(lin.out_features, -1, group)
        lo, hi = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
        self.scales = (hi - lo).clamp(min=1e-6) / 15
        self.zeros = lo
        self.codes = ((w - lo) / self.scales).round().to(torch.uint8).view(lin.out_features, -1)
        self.bias = lin.bias
        return self

    def dequantize(self):
        c = self.codes.view(self.fout, -1, self.group).float()
        return (c * self.scales + self.zeros).view(self.fout, self.fin)

    def forward(self, x):
        return nn.functional.linear(x, self.dequantize(), self.bias)


class Block(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def quantize_model(model):
    for name, child in model.named_children():
        if isinstance(child, nn.Linear):
            setattr(model, name, W4Linear.quantize(child))
        else:
            quantize_model(child)
    return model


@torch.inference_mode()
def run():
    model = nn.Sequential(*(Block() for _ in range(3)))
    model = quantize_model(model).eval()
    model.to("cuda:0")
    for _ in range(2):
        print(model(torch.randn(2, 5, 64, device="cuda:0")).std().item())


run()
