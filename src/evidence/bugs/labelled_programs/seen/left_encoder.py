# cause: module-left-on-other-device
# guilty: ?
import torch
from torch import nn


class Joined(nn.Module):
    def __init__(self):
        super().__init__()
        self.text = nn.Linear(8, 8)
        self.parts = {"vision": nn.Linear(4, 8)}

    def forward(self, words, pixels):
        return self.text(words) + self.parts["vision"](pixels)


model = Joined().to("cuda:0")
model(torch.randn(2, 8, device="cuda:0"), torch.randn(2, 4, device="cuda:0"))
