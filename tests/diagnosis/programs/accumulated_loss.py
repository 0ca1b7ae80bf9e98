# cause: loss-or-label-on-other-device
import torch
from torch import nn
a = nn.Linear(4, 1).to("cuda:0"); b = nn.Linear(4, 1).to("cuda:1")
x = torch.randn(2, 4)
loss = a(x.to("cuda:0")).mean() + b(x.to("cuda:1")).mean()
loss.backward()
