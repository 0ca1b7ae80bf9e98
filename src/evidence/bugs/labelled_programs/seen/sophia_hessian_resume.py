# cause: optimizer-state-on-other-device|checkpoint-map-location
# guilty: m (state["m"], state["h"])
# line: 30
# repair: in DiagonalNewton.restore move the slots to their parameter: self.state[p] = {k: v.to(p.device) if torch.is_tensor(v) else v for k, v in slots.items()} OR use the stock load_state_dict, which casts the state to the parameters
"""Second-order-ish optimizer with checkpointing, used on a model cut over two cards."""
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F


class DiagonalNewton(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, betas=(0.9, 0.99), rho=0.05):
        super().__init__(params, dict(lr=lr, betas=betas, rho=rho))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), h=torch.zeros_like(p))
                state["step"] += 1
                m, h = state["m"], state["h"]
                m.mul_(b1).add_(p.grad, alpha=1 - b1)
                h.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                ratio = (m.abs() / (group["rho"] * h + 1e-12)).clamp(max=1)
                p.addcmul_(m.sign(), ratio, value=-group["lr"])

    def snapshot(self):
        params = [p for g in self.param_groups for p in g["params"]]
        return [dict(self.state[p]) for p in params]

    def restore(self, saved):
        params = [p for g in self.param_groups for p in g["params"]]
        for p, slots in zip(params, saved):
            self.state[p] = slots


class SplitMixer(nn.Module):
    def __init__(self, tokens=16, dim=24, classes=5):
        super().__init__()
        self.stem = nn.Linear(dim, dim)
        self.token = nn.Sequential(nn.Linear(tokens, tokens), nn.GELU())
        self.channel = nn.Sequential(nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))
        self.head = nn.Linear(dim, classes)

    def spread(self):
        self.stem.to("cuda:0")
        self.token.to("cuda:0")
        self.channel.to("cuda:1")
        self.head.to("cuda:1")
        return self

    def forward(self, x):
        x = self.stem(x.to("cuda:0"))
        x = x + self.token(x.transpose(1, 2)).transpose(1, 2)
        x = x.to("cuda:1")
        return self.head((x + self.channel(x)).mean(1))


class Run:
    def __init__(self, folder):
        self.path = os.path.join(folder, "last.pt")
        self.model = SplitMixer().spread()
        self.opt = DiagonalNewton(self.model.parameters())
        self.done = 0
        if os.path.exists(self.path):
            saved = torch.load(self.path, map_location="cpu")
            self.model.load_state_dict(saved["model"])
            self.opt.restore(saved["opt"])
            self.done = saved["done"]

    def fit(self, steps):
        for _ in range(steps):
            out = self.model(torch.randn(8, 16, 24))
            loss = F.cross_entropy(out, torch.randint(0, 5, (8,)).to(out.device))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.done += 1
        torch.save({"model": self.model.state_dict(), "opt": self.opt.snapshot(),
                    "done": self.done}, self.path)
        return loss.item()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print("first", Run(folder).fit(2))
        print("second", Run(folder).fit(2))
