# cause: dispatched-model-moved
# guilty: ?
import torch
import torch.nn as nn
from accelerate import dispatch_model


class Residual(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.f = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, d), nn.SiLU(), nn.Linear(d, d))

    def forward(self, x):
        return x + self.f(x)


class Regressor(nn.Module):
    def __init__(self, d=40, depth=4):
        super().__init__()
        self.inp = nn.Linear(7, d)
        self.body = nn.ModuleList(Residual(d) for _ in range(depth))
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        h = self.inp(x)
        for b in self.body:
            h = b(h)
        return self.out(h).squeeze(-1)


def load(depth=4):
    net = Regressor(depth=depth)
    where = {"inp": "cuda:0", "out": "cuda:1"}
    where.update({f"body.{i}": "cuda:0" if i < depth // 2 else "cuda:1" for i in range(depth)})
    return dispatch_model(net, device_map=where)


class Evaluator:
    def __init__(self, device="cuda:0"):
        self.device = torch.device(device)

    def ready(self, model):
        return model.to(self.device).eval()

    @torch.no_grad()
    def score(self, model, batches):
        model = self.ready(model)
        err = torch.zeros((), device=self.device)
        n = 0
        for x, y in batches:
            pred = model(x.to(self.device)).to(self.device)
            err += (pred - y.to(self.device)).abs().sum()
            n += y.numel()
        return err.item() / n


def data(k=3):
    for _ in range(k):
        x = torch.randn(16, 7)
        yield x, x.sum(-1)


if __name__ == "__main__":
    torch.manual_seed(11)
    regressor = load()
    print("mae", Evaluator().score(regressor, data()))
