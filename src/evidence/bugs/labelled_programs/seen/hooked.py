# cause: block-split-across-devices|device-map-incomplete-or-wrong
# guilty: y (x)
import torch
import torch.nn as nn
from accelerate import dispatch_model


class Residual(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc1 = nn.Linear(d, 2 * d)
        self.fc2 = nn.Linear(2 * d, d)

    def forward(self, x):
        y = self.fc2(self.fc1(x).relu())
        return x + y


class Net(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.stem = nn.Linear(5, d)
        self.one = Residual(d)
        self.two = Residual(d)
        self.head = nn.Linear(d, 3)

    def forward(self, x):
        return self.head(self.two(self.one(self.stem(x))))


def main():
    torch.manual_seed(0)
    places = {
        "stem": "cuda:0",
        "one": "cuda:0",
        "two.fc1": "cuda:0",
        "two.fc2": "cuda:1",
        "head": "cuda:1",
    }
    net = dispatch_model(Net(), device_map=places)
    with torch.no_grad():
        out = net(torch.randn(4, 5))
    print(out.shape, out.sum().item())


if __name__ == "__main__":
    main()
