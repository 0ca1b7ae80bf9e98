# cause: embedding-streams-on-different-devices
# guilty: seen
import kit
import torch
from accelerate import dispatch_model

model = kit.Viewer().eval()
model = dispatch_model(model, {"words": 0, "eye": 1, "blocks.0": 0, "blocks.1": 1}, main_device=0)
with torch.no_grad():
    ids = torch.tensor([[5, 5, 1]], device="cuda:0")
    print(model(ids, torch.randn(1, 3, 12, device="cuda:0")).shape)
