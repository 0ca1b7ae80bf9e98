# cause: metric-state-device|tensor-created-on-wrong-device
# guilty: norms (p.grad.norm, norm)
# line: 42
# repair: in GradientMonitor.collect bring each norm to one device before stacking (p.grad.norm().to(first device), or .cpu() / .item())
"""Training loop with a monitor that reports gradient norms per block."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model


class Mixer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Regressor(nn.Module):
    def __init__(self, features=10, dim=24, depth=4):
        super().__init__()
        self.inp = nn.Linear(features, dim)
        self.blocks = nn.ModuleList(Mixer(dim) for _ in range(depth))
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


class GradientMonitor:
    def __init__(self, model, limit=5.0):
        self.model, self.limit, self.history = model, limit, []

    def collect(self):
        norms = [p.grad.detach().norm() for p in self.model.parameters() if p.grad is not None]
        return torch.stack(norms)

    def check(self):
        norms = self.collect()
        total = norms.norm().item()
        self.history.append(total)
        return total < self.limit


def build(depth=4):
    model = Regressor(depth=depth)
    plan = {"inp": "cuda:0", "out": "cuda:1"}
    for i in range(depth):
        plan[f"blocks.{i}"] = "cuda:0" if i < depth // 2 else "cuda:1"
    return dispatch_model(model, device_map=plan)


def fit(model, steps=5):
    monitor = GradientMonitor(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        x = torch.randn(32, 10, device="cuda:0")
        y = x[:, :3].prod(1, keepdim=True)
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        if monitor.check():
            optimizer.step()
        print(step, loss.item())
    return monitor.history


if __name__ == "__main__":
    torch.manual_seed(0)
    print(fit(build()))
