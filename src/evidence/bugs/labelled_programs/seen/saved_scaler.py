# cause: checkpoint-map-location
# guilty: kept["center"]
import os
import tempfile

import torch
from torch import nn

torch.manual_seed(21)
PATH = os.path.join(tempfile.mkdtemp(), "forecast.pt")


def build():
    return nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))


def train(device):
    x = torch.randn(32, 5, device=device) * 4 + 2
    y = x.sum(1, keepdim=True)
    center, spread = x.mean(0), x.std(0)
    net = build().to(device)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(5):
        loss = (net((x - center) / spread) - y).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.save({"net": net.state_dict(), "center": center, "spread": spread}, PATH)


class Forecast:
    def __init__(self, path, device):
        kept = torch.load(path)
        self.device = device
        self.net = build().to(device)
        self.net.load_state_dict(kept["net"])
        self.kept = kept

    @torch.no_grad()
    def __call__(self, rows):
        x, kept = torch.tensor(rows, device=self.device), self.kept
        x = (x - kept["center"]) / kept["spread"]
        return self.net(x).squeeze(1).tolist()


train("cuda:1")
serve = Forecast(PATH, "cuda:0")
print(serve([[1.0, 2.0, 3.0, 4.0, 5.0], [0.0, 0.0, 1.0, 1.0, 2.0]]))
