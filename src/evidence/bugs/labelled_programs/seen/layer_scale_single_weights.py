# cause: device-map-incomplete-or-wrong|block-split-across-devices|tensor-created-on-wrong-device
# guilty: self.gamma
# line: 20
# repair: place whole blocks: in build_plan give "blocks.2" as a whole to cuda:1 instead of listing its parts and leaving blocks.2.gamma with cuda:0 OR move gamma into a module of its own with a forward
"""Vision backbone with layer scale, dispatched by a map that was balanced weight by weight."""
import torch
import torch.nn as nn
from accelerate import dispatch_model


class ScaledBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))
        self.gamma = nn.Parameter(torch.full((dim,), 0.1))

    def forward(self, x):
        y = self.mlp(self.norm(x))
        y = y * self.gamma
        return x.to(y.device) + y


class Backbone(nn.Module):
    def __init__(self, dim=32, depth=4, classes=7):
        super().__init__()
        self.stem = nn.Linear(48, dim)
        self.blocks = nn.ModuleList(ScaledBlock(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(dim=1))


def build_plan():
    """Half of the weights for each card, so the cut lands within the third block."""
    plan = {"stem": "cuda:0", "blocks.0": "cuda:0", "blocks.1": "cuda:0"}
    plan["blocks.2.gamma"] = "cuda:0"
    plan["blocks.2.norm"] = "cuda:1"
    plan["blocks.2.mlp"] = "cuda:1"
    plan.update({"blocks.3": "cuda:1", "norm": "cuda:1", "head": "cuda:1"})
    return plan


def predict(model, images):
    with torch.no_grad():
        return model(images).softmax(-1).argmax(-1)


if __name__ == "__main__":
    torch.manual_seed(0)
    backbone = dispatch_model(Backbone().eval(), device_map=build_plan())
    for _ in range(2):
        patches = torch.randn(3, 16, 48, device="cuda:0")
        print(predict(backbone, patches).tolist())
