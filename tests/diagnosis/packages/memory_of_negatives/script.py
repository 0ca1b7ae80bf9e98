# cause: tensor-created-on-wrong-device|cache-or-beam-state-on-wrong-device
# guilty: self.queue (self.queue.T)
import kit
import torch
from torch import nn

model = kit.Contrast(nn.Linear(4, 3), 3).to("cuda:0")
x = torch.randn(2, 4, device="cuda:0")
model(x, x).logsumexp(1).sum().backward()
