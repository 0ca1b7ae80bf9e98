# cause: embedding-streams-on-different-devices
# guilty: sounds
import kit
import torch
from accelerate import dispatch_model

model = kit.Listener().eval()
model = dispatch_model(model, {"words": 0, "ear": 1, "blocks.0": 0, "blocks.1": 1}, main_device=0)
ids = torch.tensor([[3, 7, 7, 2]], device="cuda:0")
with torch.no_grad():
    print(model(ids, audio=torch.randn(1, 2, 6, device="cuda:0")).shape)
