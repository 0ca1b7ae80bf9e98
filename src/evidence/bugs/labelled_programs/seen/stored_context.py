# cause: input-not-on-embedding-device|extra-input-on-wrong-device
# guilty: self.context (context)
# after: sbi-dev/sbi#1368
import torch
from torch import nn


class Emulator:
    def __init__(self, width):
        self.net = nn.Sequential(nn.Linear(width, 16), nn.SiLU(), nn.Linear(16, 1))
        self.context = None

    def fit(self, x, y, device):
        self.context = x.mean(0, keepdim=True)
        self.net.to(device)
        x, y = x.to(device), y.to(device)
        optimizer = torch.optim.Adam(self.net.parameters())
        for _ in range(3):
            loss = (self.net(x) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return self

    @torch.no_grad()
    def baseline(self):
        return self.net(self.context).item()


x = torch.rand(30, 4)
print(Emulator(4).fit(x, x.sum(-1, keepdim=True), "cuda:0").baseline())
