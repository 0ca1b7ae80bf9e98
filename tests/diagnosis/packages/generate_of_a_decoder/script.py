# cause: generation-helper-on-wrong-device
# guilty: unfinished (running or self.unfinished)
import kit
import torch
from torch import nn

model = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9)).to("cuda:0")
with torch.no_grad():
    print(kit.Decoder(model).generate(torch.tensor([[1, 2], [3, 4]], device="cuda:0")))
