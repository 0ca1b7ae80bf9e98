# cause: loss-or-label-on-other-device
# guilty: ?
import kit
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = kit.Noisy(4, 4).to("cuda:1")
        self.last = nn.Linear(4, 2).to("cuda:0")

    def forward(self, x):
        return self.last(self.first(x.to("cuda:1")).to("cuda:0"))


objective = kit.Objective(Net(), nn.CrossEntropyLoss())
loss = objective(torch.randn(3, 4, device="cuda:0"), torch.tensor([0, 1, 0], device="cuda:0"))
loss.sum().backward()
print(loss.item())
