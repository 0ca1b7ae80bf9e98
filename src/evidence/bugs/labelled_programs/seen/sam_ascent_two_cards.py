# cause: optimizer-state-on-other-device|tensor-created-on-wrong-device
# guilty: norms (p.grad, p.grad.norm(p=2))
# line: 45
# repair: in SAM._grad_norm bring every norm to one device, `p.grad.norm(p=2).to(shared)` with shared = self.param_groups[0]["params"][0].device, before torch.stack
"""Sharpness-aware training of a regressor whose tower does not fit on one card."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base_optimizer, rho=0.05, **kwargs):
        defaults = dict(rho=rho, **kwargs)
        super().__init__(params, defaults)
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self):
        scale = self.param_groups[0]["rho"] / (self._grad_norm() + 1e-12)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                e_w = p.grad * scale.item()
                p.add_(e_w)
                self.state[p]["e_w"] = e_w
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if "e_w" in self.state[p]:
                    p.sub_(self.state[p].pop("e_w"))
        self.base_optimizer.step()
        self.zero_grad()

    def _grad_norm(self):
        norms = []
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    norms.append(p.grad.norm(p=2))
        return torch.stack(norms).norm(p=2)


class WideRegressor(nn.Module):
    def __init__(self, features, width, devices):
        super().__init__()
        self.devices = devices
        self.lower = nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.Linear(width, width)).to(devices[0])
        self.upper = nn.Sequential(nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 1)).to(devices[1])

    def forward(self, x):
        h = self.lower(x.to(self.devices[0]))
        return self.upper(h.to(self.devices[1])).squeeze(-1)


class Trainer:
    def __init__(self, model, lr=0.05, rho=0.1):
        self.model = model
        self.optimizer = SAM(model.parameters(), torch.optim.SGD, rho=rho, lr=lr, momentum=0.9)

    def closure(self, x, y):
        pred = self.model(x)
        loss = F.smooth_l1_loss(pred, y.to(pred.device))
        loss.backward()
        return loss

    def step(self, x, y):
        loss = self.closure(x, y)
        self.optimizer.first_step()
        self.closure(x, y)
        self.optimizer.second_step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = WideRegressor(16, 64, ["cuda:0", "cuda:1"])
    trainer = Trainer(model)
    x = torch.randn(128, 16)
    y = x[:, :3].sum(dim=1)
    for epoch in range(3):
        for start in range(0, 128, 32):
            loss = trainer.step(x[start:start + 32], y[start:start + 32])
        print(f"epoch {epoch} loss {loss:.4f}")
