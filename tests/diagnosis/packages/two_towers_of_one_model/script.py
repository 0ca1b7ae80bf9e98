# cause: embedding-streams-on-different-devices
# guilty: ?
import kit
import torch

model = kit.Towers().spread("cuda:0", "cuda:1")
with torch.no_grad():
    print(model(torch.randn(2, 6, device="cuda:0"), torch.tensor([[1, 2], [3, 4]], device="cuda:1")).shape)
