# cause: block-split-across-devices
# guilty: ?
import kit
import torch
from accelerate import dispatch_model

model = kit.Reader().eval()
model = dispatch_model(model, {"words": 0, "segments": 1, "blocks.0": 0, "blocks.1": 1}, main_device=0)
with torch.no_grad():
    print(model(torch.tensor([[5, 5, 1]], device="cuda:0"), torch.tensor([[0, 0, 1]], device="cuda:0")).shape)
