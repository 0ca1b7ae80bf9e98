# cause: module-left-on-other-device
# guilty: ?
import kit
import torch
from torch import nn

pipe = kit.Pipeline(nn.Linear(4, 4), nn.Linear(4, 6)).to("cuda:0")
print(pipe(torch.randn(2, 4, device="cuda:0")).shape)
