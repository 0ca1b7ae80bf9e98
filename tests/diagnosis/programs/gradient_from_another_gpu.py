# cause: block-split-across-devices
import copy

import torch
from torch import nn

main = nn.Linear(4, 2).to("cuda:0")
worker = copy.deepcopy(main).to("cuda:1")
worker(torch.ones(3, 4, device="cuda:1")).sum().backward()
for own, other in zip(main.parameters(), worker.parameters()):
    own.grad = other.grad * 0.5
