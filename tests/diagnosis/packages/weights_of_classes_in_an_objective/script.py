# cause: loss-or-label-on-other-device
# guilty: self.weights (weights)
import kit
import torch
from torch import nn

weights = torch.tensor([0.2, 0.3, 0.5])
objective = kit.Balanced(weights)
net = nn.Linear(4, 3).to("cuda:0")
loss = objective(net(torch.randn(3, 4, device="cuda:0")), torch.tensor([0, 1, 2], device="cuda:0"))
loss.backward()
