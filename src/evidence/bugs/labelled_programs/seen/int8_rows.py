# cause: quantized-state-on-other-device
# guilty: self.scale
import torch
import torch.nn.functional as F
from torch import nn


class Int8Linear(nn.Module):
    def __init__(self, lin):
        super().__init__()
        w = lin.weight.detach()
        self.scale = w.abs().amax(1, keepdim=True) / 127
        self.register_buffer("q", (w / self.scale).round().to(torch.int8))
        self.register_buffer("bias", lin.bias.detach().clone())

    def forward(self, x):
        w = self.q.to(x.dtype) * self.scale
        return F.linear(x, w, self.bias)


def quantise(module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, Int8Linear(child))
        else:
            quantise(child)
    return module


model = nn.Sequential(
    nn.Linear(12, 48),
    nn.GELU(),
    nn.Sequential(nn.LayerNorm(48), nn.Linear(48, 48), nn.GELU()),
    nn.Linear(48, 5),
)
model = quantise(model).to("cuda:1").eval()

with torch.no_grad():
    for _ in range(3):
        batch = torch.randn(7, 12).to("cuda:1")
        print(model(batch).argmax(-1).tolist())
