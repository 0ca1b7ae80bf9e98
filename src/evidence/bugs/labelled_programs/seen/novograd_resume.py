# cause: optimizer-state-on-other-device|checkpoint-map-location
# guilty: v (self.layer_sq[key])
import os
import tempfile

import torch
from torch.optim.optimizer import Optimizer


class NovoGrad(Optimizer):
    """Layer-wise second moments are kept per group, apart from `state`, as one vector."""

    def __init__(self, params, lr=1e-3, betas=(0.95, 0.98), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))
        self.layer_sq = {}

    def state_dict(self):
        d = super().state_dict()
        d["layer_sq"] = self.layer_sq
        return d

    def load_state_dict(self, d):
        d = dict(d)
        self.layer_sq = d.pop("layer_sq")
        super().load_state_dict(d)

    @torch.no_grad()
    def step(self):
        for gi, g in enumerate(self.param_groups):
            b1, b2 = g["betas"]
            for pi, p in enumerate(g["params"]):
                if p.grad is None:
                    continue
                norm = p.grad.pow(2).sum().reshape(1)
                key = (gi, pi)
                if key not in self.layer_sq:
                    self.layer_sq[key] = norm.clone()
                v = self.layer_sq[key]
                v.mul_(b2).add_(norm, alpha=1 - b2)
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                m.mul_(b1).add_(p.grad / (v.sqrt() + g["eps"]))
                p.sub_(m, alpha=g["lr"])


def net():
    return torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).to("cuda:0")


def fit(model, opt, steps):
    for _ in range(steps):
        x = torch.randn(32, 10, device="cuda:0")
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


path = os.path.join(tempfile.mkdtemp(), "last.pt")
model = net()
opt = NovoGrad(model.parameters())
fit(model, opt, 2)
torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, path)

again = net()
ck = torch.load(path, map_location="cpu")
again.load_state_dict(ck["model"])
opt2 = NovoGrad(again.parameters())
opt2.load_state_dict(ck["opt"])
fit(again, opt2, 2)
