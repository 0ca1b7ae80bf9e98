# cause: optimizer-state-on-other-device
import torch
from torch import nn


class Average:
    def __init__(self, model, beta=0.9):
        self.beta, self.store = beta, {}
        for name, p in model.named_parameters():
            self.store[name] = p.data.clone().cpu()

    def update(self, model):
        for name, p in model.named_parameters():
            self.store[name] = self.beta * self.store[name] + (1 - self.beta) * p.data


device = torch.device("cuda:1")
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).to(device)
avg = Average(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    opt.zero_grad()
    net(torch.randn(2, 3, device=device)).sum().backward()
    opt.step()
    avg.update(net)
