# cause: tensor-created-on-wrong-device
# guilty: self.T (self.basis.T or self.powers)
# after: unit8co/darts#298
import torch
from torch import nn


class Trend(nn.Module):
    def __init__(self, degree, length):
        super().__init__()
        self.T = torch.stack([(torch.arange(length) / length) ** i for i in range(degree)])

    def forward(self, theta):
        return torch.matmul(theta, self.T)


class Stack(nn.Module):
    def __init__(self, past, ahead, degree=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(past, 32), nn.ReLU(), nn.Linear(32, 2 * degree))
        self.back, self.fore = Trend(degree, past), Trend(degree, ahead)

    def forward(self, x):
        back, fore = self.body(x).chunk(2, -1)
        return x - self.back(back), self.fore(fore)


model = nn.ModuleList([Stack(12, 4) for _ in range(2)]).cuda()
x = torch.randn(5, 12).cuda()
forecast = 0
for stack in model:
    x, part = stack(x)
    forecast = forecast + part
print(forecast.shape)
