# cause: dispatched-model-moved
# guilty: self.weight (weight or head.weight)
"""A part of a dispatched model is moved, and its hook still sends inputs where it was."""

import torch
from accelerate import dispatch_model
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.second(self.first(x)).relu())


model = dispatch_model(Model(), device_map={"first": 0, "second": 1, "head": 1})
model.head.to("cuda:0")
print(model(torch.rand(3, 4)).shape)
