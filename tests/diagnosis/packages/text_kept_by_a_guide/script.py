# cause: embedding-streams-on-different-devices|extra-input-on-wrong-device|cache-or-beam-state-on-wrong-device
# guilty: ?
import kit
import torch
from torch import nn

painter = nn.Linear(4, 4).to("cuda:0")
reader = nn.Embedding(9, 4).to("cuda:1")
guide = kit.Guide(painter, reader)
with torch.no_grad():
    guide.prompt(torch.tensor([[1, 2]], device="cuda:1"))
    print(guide.step(torch.randn(1, 4, device="cuda:0")))
