# cause: generator-or-default-device|generator-on-other-device
# guilty: ?
"""Physics surrogate; everything is made on the card by default."""
import torch
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.set_default_device("cuda")


def pendulum(n, steps=30, dt=0.05):
    th, om = torch.rand(n) * 3 - 1.5, torch.randn(n)
    frames = []
    for _ in range(steps):
        om = om - dt * torch.sin(th)
        th = th + dt * om
        frames.append(torch.stack([th, om], -1))
    return torch.stack(frames, 1)


class Surrogate(torch.nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, hidden), torch.nn.SiLU(), torch.nn.Linear(hidden, 2))

    def forward(self, s):
        return s + self.net(s)


data = pendulum(128)
pairs = TensorDataset(data[:, :-1].flatten(0, 1), data[:, 1:].flatten(0, 1))
train, val = random_split(pairs, [0.9, 0.1], generator=torch.Generator(device="cuda").manual_seed(0))
model = Surrogate()
opt = torch.optim.Adam(model.parameters(), 1e-3)
for epoch in range(2):
    for s, nxt in DataLoader(train, batch_size=512, shuffle=True, generator=torch.Generator(device="cpu")):
        loss = (model(s) - nxt).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    with torch.no_grad():
        print(epoch, sum((model(s) - n).square().sum().item() for s, n in DataLoader(val, batch_size=512)))
