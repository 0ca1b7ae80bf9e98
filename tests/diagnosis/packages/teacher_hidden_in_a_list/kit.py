import torch
from torch import nn


class Distilled(nn.Module):
    def __init__(self, student, teacher):
        super().__init__()
        self.student = student
        self.hidden = [teacher]

    def forward(self, x):
        with torch.no_grad():
            goal = self.hidden[0](x)
        return (self.student(x) - goal).pow(2).mean()
