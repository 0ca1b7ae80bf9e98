# cause: quantized-state-on-other-device
# guilty: self.scale
import torch
import torch.nn as nn
import torch.nn.functional as F


class QTensor:
    def __init__(self, values, scale):
        self.values, self.scale = values, scale

    @classmethod
    def quantise(cls, w):
        scale = w.abs().amax(1, keepdim=True).clamp(min=1e-8) / 127
        return cls((w / scale).round().to(torch.int8), scale)

    def dequantise(self):
        return self.values.float() * self.scale

    def to(self, device):
        self.values = self.values.to(device)
        return self


class QLinear(nn.Module):
    def __init__(self, src: nn.Linear):
        super().__init__()
        self.q = QTensor.quantise(src.weight.detach())
        self.bias = None if src.bias is None else nn.Parameter(src.bias.detach(), requires_grad=False)

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        probe = fn(torch.empty(0))
        self.q.to(probe.device)
        return self

    def forward(self, x):
        return F.linear(x, self.q.dequantise(), self.bias)


def convert(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, QLinear(child))
        else:
            convert(child)
    return module


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU())
        self.head = nn.Linear(48, 3)

    def forward(self, x):
        return self.head(self.body(x))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Net().eval()
    x = torch.randn(5, 12)
    with torch.no_grad():
        ref = net(x)
        qnet = convert(net).to("cuda:0")
        out = qnet(x.to("cuda:0")).cpu()
    print("max diff", (out - ref).abs().max().item())
