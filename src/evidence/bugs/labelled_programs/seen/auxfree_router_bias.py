# cause: tensor-created-on-wrong-device
# guilty: self.expert_bias
# line: 20
# repair: in BiasedRouter.__init__ register it, self.register_buffer("expert_bias", torch.zeros(experts)), so that .to() moves it OR in forward use self.expert_bias.to(scores.device)
"""Mixture of experts without auxiliary loss: a bias steers the choice of experts."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BiasedRouter(nn.Module):
    def __init__(self, dim, experts, topk=2, speed=0.01):
        super().__init__()
        self.proj = nn.Linear(dim, experts, bias=False)
        self.topk, self.speed = topk, speed
        self.expert_bias = torch.zeros(experts)

    def forward(self, tokens):
        scores = torch.sigmoid(self.proj(tokens))
        chosen = torch.topk(scores + self.expert_bias, self.topk, dim=-1).indices
        weights = scores.gather(-1, chosen)
        return weights / weights.sum(-1, keepdim=True), chosen

    @torch.no_grad()
    def rebalance(self, counts):
        error = counts.float().mean() - counts.float()
        self.expert_bias += self.speed * torch.sign(error)


class Expert(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        return self.net(x)


class SparseLayer(nn.Module):
    def __init__(self, dim=32, experts=4):
        super().__init__()
        self.router = BiasedRouter(dim, experts)
        self.experts = nn.ModuleList(Expert(dim) for _ in range(experts))
        self.counts = None

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weights, chosen = self.router(tokens)
        out = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            rows, slot = torch.where(chosen == i)
            if rows.numel():
                out.index_add_(0, rows, expert(tokens[rows]) * weights[rows, slot, None])
        self.counts = torch.bincount(chosen.flatten(), minlength=len(self.experts))
        return x + out.view_as(x)


class SparseTower(nn.Module):
    def __init__(self, devices, per_device=1):
        super().__init__()
        self.devices = devices
        self.stages = nn.ModuleList()
        for device in devices:
            self.stages.append(nn.Sequential(*(SparseLayer() for _ in range(per_device))).to(device))

    def forward(self, x):
        for device, stage in zip(self.devices, self.stages):
            x = stage(x.to(device))
        return x

    def routers(self):
        return [m for m in self.modules() if isinstance(m, SparseLayer)]


if __name__ == "__main__":
    torch.manual_seed(0)
    tower = SparseTower(["cuda:0", "cuda:1"])
    optimizer = torch.optim.SGD(tower.parameters(), lr=0.05)
    for step in range(3):
        x = torch.randn(4, 10, 32)
        out = tower(x)
        loss = F.mse_loss(out, x.to(out.device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        for layer in tower.routers():
            layer.router.rebalance(layer.counts)
        print(step, loss.item())
