import os

os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"

import torch
from opacus.validators import ModuleValidator
from torch import nn

model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 2)
).to("cuda:0")
model = ModuleValidator.fix(model)
images = torch.randn(2, 3, 4, 4, device="cuda:0")
logits = model(images)
print(logits.shape)
print("SCENARIO OK")
