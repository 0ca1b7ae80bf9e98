# cause: dispatched-model-moved
# guilty: ?
import torch
from accelerate import dispatch_model
from torch import nn


class Half(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.ReLU())

    def forward(self, x):
        return x + self.body(x)


class Ranker(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.inp = nn.Linear(9, d)
        self.low, self.high = Half(d), Half(d)
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        return self.out(self.high(self.low(self.inp(x)))).squeeze(-1)


def load():
    spread = {"inp": 0, "low": 0, "high": 1, "out": 1}
    return dispatch_model(Ranker().eval(), device_map=spread)


class Service:
    def __init__(self, model, device="cuda:0"):
        self.device = torch.device(device)
        self.model = model.to(self.device)

    @torch.no_grad()
    def rank(self, rows):
        score = self.model(rows.to(self.device))
        return score.argsort(descending=True).tolist()


service = Service(load())
print(service.rank(torch.randn(6, 9)))
