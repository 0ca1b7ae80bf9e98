# cause: tensor-created-on-wrong-device|block-split-across-devices
# guilty: 1 + scale (scale or self.table)
import kit
import torch
from accelerate import dispatch_model

model = kit.Painter().eval()
places = {"table": 0, "time": 0, "blocks.0": 0, "blocks.1": 1, "norm": 1, "out": 1}
model = dispatch_model(model, places, main_device=0)
with torch.no_grad():
    print(model(torch.randn(2, 3, 8, device="cuda:0"), torch.ones(2, 1, device="cuda:0")).shape)
