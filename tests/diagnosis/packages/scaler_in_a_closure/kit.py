from torch import nn


def scaler(mean, spread):
    def scale(x):
        return (x - mean) / spread

    return scale


class Regressor(nn.Module):
    def __init__(self, mean, spread):
        super().__init__()
        self.prepare = scaler(mean, spread)
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(self.prepare(x))
