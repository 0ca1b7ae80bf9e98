# cause: metric-state-device
# guilty: self.squares
import torch
from torch import nn


class RootMeanSquare:
    def __init__(self, sensors):
        self.squares = torch.zeros(sensors)
        self.seen = 0

    def add(self, error):
        self.squares = self.squares + error.pow(2).sum(0)
        self.seen += error.shape[0]

    def value(self):
        return (self.squares / self.seen).sqrt()


net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)).to("cuda:0").eval()
score = RootMeanSquare(3)
with torch.no_grad():
    for _ in range(3):
        x = torch.rand(8, 6)
        truth = torch.rand(8, 3)
        score.add(net(x.to("cuda:0")) - truth.to("cuda:0"))
print(score.value())
