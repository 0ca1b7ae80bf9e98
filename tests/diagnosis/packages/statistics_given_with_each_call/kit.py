from torch import nn


class Affine:
    def apply(self, x, mean):
        return x - mean


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Affine()
        self.layers = nn.Linear(5, 1)

    def forward(self, x, mean):
        return self.layers(self.first.apply(x, mean))
