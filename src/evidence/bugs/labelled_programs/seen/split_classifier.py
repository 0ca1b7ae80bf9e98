# cause: loss-or-label-on-other-device
# guilty: target
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    def __init__(self, n=48):
        g = torch.Generator().manual_seed(0)
        self.y = torch.randint(0, 3, (n,), generator=g)
        self.x = torch.randn(n, 20, generator=g) + self.y[:, None]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class SplitMLP(nn.Module):
    """First half on GPU 0, second half on GPU 1."""

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(20, 64), nn.Tanh()).to("cuda:0")
        self.back = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 3)).to("cuda:1")

    def forward(self, x):
        x = self.front(x)
        return self.back(x.to("cuda:1"))


def hinge(output, target, margin=1.0):
    right = output.gather(1, target.unsqueeze(1))
    slack = (output - right + margin).clamp(min=0)
    return slack.sum(1).mean() - margin


model = SplitMLP()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(2):
    for data, target in DataLoader(Blobs(), batch_size=16, shuffle=True):
        data, target = data.to("cuda:0"), target.to("cuda:0")
        optimizer.zero_grad()
        loss = hinge(model(data), target)
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", loss.item())
