# cause: quantized-state-on-other-device
# guilty: stats (stats.view(-1, 1) or state.SCB)
# after: huggingface/peft#3418
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn

@dataclass
class MatmulState:
    SCB: Optional[torch.Tensor] = None
    threshold: float = 6.0

class Int8Linear(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.state = MatmulState()
        scale = weight.abs().amax(dim=1)
        self.state.SCB = scale
        q = torch.round(weight * (127 / scale[:, None])).to(torch.int8)
        self.weight = nn.Parameter(q, requires_grad=False)

    @property
    def out_features(self):
        return self.weight.shape[0]

    def forward(self, x):
        return x @ dequantize(self.weight, self.state).T

def int8_vectorwise_dequant(data, stats):
    return data * stats.view(-1, 1) * 7.874015718698502e-3

def dequantize(weight, state):
    return int8_vectorwise_dequant(weight.data, state.SCB)

class DoraLayer(nn.Module):
    def __init__(self, base, r=4):
        super().__init__()
        self.base = base
        self.lora_A = nn.Linear(base.weight.shape[1], r, bias=False)
        self.lora_B = nn.Linear(r, base.out_features, bias=False)
        nn.init.zeros_(self.lora_B.weight)
        self.magnitude = None

    @torch.no_grad()
    def dora_init(self, accelerator):
        """The norm of a big matrix is slow on the host: borrow the accelerator."""
        home = self.base.weight.device
        self.base.to(accelerator)
        self.lora_A.to(accelerator), self.lora_B.to(accelerator)
        merged = dequantize(self.base.weight, self.base.state) + self.lora_B.weight @ self.lora_A.weight
        norm = torch.linalg.norm(merged, dim=1)
        self.to(home)
        self.magnitude = nn.Parameter(norm.to(home))

    def forward(self, x):
        delta = self.lora_B(self.lora_A(x))
        return (self.base(x) + delta) * (self.magnitude / self.magnitude.mean())

def wrap(model, accelerator):
    for i, layer in enumerate(model):
        if isinstance(layer, nn.Linear):
            dora = DoraLayer(Int8Linear(layer.weight.detach()))
            dora.dora_init(accelerator)
            model[i] = dora
    return model

if __name__ == "__main__":
    model = wrap(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8)), torch.device("cuda"))
    print(model(torch.randn(4, 16)).shape)
