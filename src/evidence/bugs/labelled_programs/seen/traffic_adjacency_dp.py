# cause: data-parallel-replica-device|tensor-created-on-wrong-device
# guilty: self.adjacency (adjacency)
# line: 33
# repair: register the normalised adjacency as a buffer in DiffusionConv.__init__ (self.register_buffer("adjacency", ...)) so that every replica gets its own copy, instead of a plain attribute put on cuda:0 OR use self.adjacency.to(x.device) in forward
"""Traffic forecasting on a sensor graph, trained with nn.DataParallel on two cards."""
import torch
import torch.nn.functional as F
from torch import nn


def road_graph(sensors, seed=0):
    g = torch.Generator().manual_seed(seed)
    places = torch.rand(sensors, 2, generator=g)
    distance = torch.cdist(places, places)
    weights = torch.exp(-(distance / distance.std()) ** 2)
    return weights * (weights > 0.3)


def random_walk(adjacency):
    return adjacency / adjacency.sum(1, keepdim=True).clamp(min=1e-6)


class DiffusionConv(nn.Module):
    def __init__(self, adjacency, fin, fout, hops, device):
        super().__init__()
        self.adjacency = random_walk(adjacency).to(device)
        self.hops = hops
        self.lin = nn.Linear(fin * (hops + 1), fout)

    def forward(self, x):
        parts = [x]
        for _ in range(self.hops):
            parts.append(self.adjacency @ parts[-1])
        return self.lin(torch.cat(parts, dim=-1))


class Forecaster(nn.Module):
    def __init__(self, adjacency, history=12, horizon=3, width=16, device="cuda:0"):
        super().__init__()
        self.conv1 = DiffusionConv(adjacency, history, width, 2, device)
        self.conv2 = DiffusionConv(adjacency, width, width, 2, device)
        self.out = nn.Linear(width, horizon)
        self.to(device)

    def forward(self, x):
        h = F.relu(self.conv1(x))
        h = h + F.relu(self.conv2(h))
        return self.out(h)


class SpeedSet(torch.utils.data.Dataset):
    def __init__(self, sensors, count):
        t = torch.arange(count + 15).float()
        phase = torch.rand(sensors)
        self.series = torch.sin(t[:, None] / 6 + phase[None] * 6.28)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return self.series[i:i + 12].T, self.series[i + 12:i + 15].T


def masked_mae(prediction, target, null=0.0):
    mask = (target != null).float()
    return ((prediction - target).abs() * mask).sum() / mask.sum().clamp(min=1)


def train(device="cuda:0"):
    torch.manual_seed(0)
    adjacency = road_graph(20)
    model = nn.DataParallel(Forecaster(adjacency, device=device), device_ids=[0, 1])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = torch.utils.data.DataLoader(SpeedSet(20, 48), batch_size=16, shuffle=True)
    for x, y in loader:
        prediction = model(x.to(device))
        loss = masked_mae(prediction, y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())


if __name__ == "__main__":
    train()
