# cause: device-map-incomplete-or-wrong
# guilty: self.pos
import torch
from accelerate import dispatch_model
from torch import nn


class Backbone(nn.Module):
    def __init__(self, d=48, n=16):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 8, stride=8)
        self.pos = nn.Parameter(torch.randn(1, n, d) * 0.02)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(d, 4, 96, batch_first=True) for _ in range(4)
        )

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2)
        x = x + self.pos
        for blk in self.blocks:
            x = blk(x)
        return x


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.head = nn.Linear(48, 10)

    def forward(self, img):
        return self.head(self.backbone(img).mean(1))


device_map = {"backbone.patch": 0, "backbone.pos": 0, "head": 1}
for i in range(4):
    device_map[f"backbone.blocks.{i}"] = 0 if i < 2 else 1

model = dispatch_model(Classifier().eval(), device_map=device_map)
with torch.inference_mode():
    print(model(torch.rand(2, 3, 32, 32)).argmax(-1))
