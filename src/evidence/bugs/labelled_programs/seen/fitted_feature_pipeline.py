# cause: tensor-created-on-wrong-device
# guilty: self.edges (edges, boundaries)
# line: 46
# repair: register the fitted edges as buffers (self.register_buffer("edges", ...)) so that they move with the model, OR torch.bucketize(column, self.edges.to(column.device))
"""Tabular net with a fitted preprocessing part: columns are binned and embedded."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Transform(nn.Module):
    width = 0

    def fit(self, column):
        return self


class Standardise(Transform):
    width = 1

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("std", torch.ones(()))

    def fit(self, column):
        self.mean.copy_(column.mean())
        self.std.copy_(column.std())
        return self

    def forward(self, column):
        return ((column - self.mean) / self.std).unsqueeze(-1)


class Binned(Transform):
    def __init__(self, bins=8, dim=6):
        super().__init__()
        self.bins, self.width = bins, dim
        self.table = nn.Embedding(bins + 1, dim)

    def fit(self, column):
        self.edges = torch.quantile(column, torch.linspace(0.05, 0.95, self.bins))
        return self

    def forward(self, column):
        return self.table(torch.bucketize(column, self.edges))


KINDS = {"standard": Standardise, "binned": Binned}


class TabularNet(nn.Module):
    def __init__(self, schema, frame):
        super().__init__()
        self.transforms = nn.ModuleList(KINDS[kind]().fit(frame[:, i]) for i, kind in enumerate(schema))
        wide = sum(t.width for t in self.transforms)
        self.body = nn.Sequential(nn.Linear(wide, 32), nn.SiLU(), nn.Linear(32, 1))

    def forward(self, frame):
        parts = [t(frame[:, i]) for i, t in enumerate(self.transforms)]
        return self.body(torch.cat(parts, dim=-1)).squeeze(-1)


def make_frame(n):
    frame = torch.rand(n, 4) * torch.tensor([1.0, 50.0, 3.0, 900.0])
    return frame, (frame[:, 0] > 0.5).float() + 0.02 * frame[:, 1]


def train(model, frame, price, device, epochs=4, batch=32):
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for epoch in range(epochs):
        for rows in torch.randperm(len(frame)).split(batch):
            x, y = frame[rows].to(device), price[rows].to(device)
            loss = F.huber_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    frame, price = make_frame(128)
    net = TabularNet(["standard", "binned", "binned", "standard"], frame)
    train(net, frame, price, "cuda:0")
