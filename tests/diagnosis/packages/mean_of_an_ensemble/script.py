# cause: embedding-streams-on-different-devices|block-split-across-devices
# guilty: ?
import kit
import torch
from torch import nn

members = [nn.Linear(4, 3).to("cuda:0"), nn.Linear(4, 3).to("cuda:1")]
print(kit.Ensemble(members).predict(torch.randn(2, 4)))
