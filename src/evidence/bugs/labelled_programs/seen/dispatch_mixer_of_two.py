# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: y (x)
"""Inference of a small MLP stack that is spread over two GPUs by accelerate."""
import torch
import torch.nn.functional as F
from accelerate import dispatch_model
from torch import nn


class MixerBlock(nn.Module):
    def __init__(self, dim, expand=2):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.inner = nn.Linear(dim, dim * expand)
        self.outer = nn.Linear(dim * expand, dim)

    def forward(self, x):
        y = self.outer(F.gelu(self.inner(self.norm(x))))
        return x + y


class Stack(nn.Module):
    def __init__(self, inp=12, dim=24, depth=4, classes=5):
        super().__init__()
        self.stem = nn.Linear(inp, dim)
        self.blocks = nn.ModuleList(MixerBlock(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


PLACEMENT = {
    "stem": "cuda:0",
    "blocks.0": "cuda:0",
    "blocks.1": "cuda:0",
    "blocks.2.norm": "cuda:0",
    "blocks.2.inner": "cuda:0",
    "blocks.2.outer": "cuda:1",
    "blocks.3": "cuda:1",
    "norm": "cuda:1",
    "head": "cuda:1",
}


def main():
    torch.manual_seed(0)
    model = Stack().eval()
    print("parameters:", sum(p.numel() for p in model.parameters()))
    model = dispatch_model(model, device_map=PLACEMENT)
    with torch.no_grad():
        for i in range(3):
            logits = model(torch.randn(6, 12))
            print(i, logits.argmax(-1).tolist())


if __name__ == "__main__":
    main()
