# cause: optimizer-built-before-move|optimizer-state-on-other-device
# guilty: ?
import torch
from torch import nn


class Clicks(nn.Module):
    def __init__(self, users=50, items=80, d=8):
        super().__init__()
        self.u = nn.Embedding(users, d)
        self.i = nn.Embedding(items, d)
        self.top = nn.Sequential(nn.Linear(2 * d, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, u, i):
        return self.top(torch.cat([self.u(u), self.i(i)], -1)).squeeze(-1)


class Runner:
    def __init__(self, lr=0.05):
        self.model = Clicks()
        self.opt = torch.optim.Adagrad(self.model.parameters(), lr=lr)

    def fit(self, rows, device):
        self.model.to(device)
        bce = nn.BCEWithLogitsLoss()
        for u, i, hit in rows:
            out = self.model(u.to(device), i.to(device))
            loss = bce(out, hit.to(device))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()


rows = [
    (torch.randint(0, 50, (16,)), torch.randint(0, 80, (16,)), torch.rand(16).round())
    for _ in range(4)
]
print(Runner().fit(rows, "cuda:1"))
