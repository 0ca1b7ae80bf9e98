# cause: tensor-created-on-wrong-device
# guilty: self.sigmas (self.sigmas[step])
import kit
import torch
from torch import nn

net = nn.Linear(4, 4).to("cuda:0")
x = torch.randn(2, 4, device="cuda:0")
scheduler = kit.Scheduler()
with torch.no_grad():
    for step in range(2):
        x = scheduler.step(net(x), x, step)
