# cause: optimizer-state-on-other-device|checkpoint-map-location
# guilty: s["m"] (s["h"], self.state, saved state)
# line: 30
# repair: in ClippedNewton.load_moments move every tensor to its parameter's device: self.state[p] = {k: v.to(p.device) if torch.is_tensor(v) else v for k, v in saved.items()} (map_location="cuda:0" puts all of them on the first card)
"""Second-order optimizer with clipping, used over a net of two stages and resumed from a file."""
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F


class ClippedNewton(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, betas=(0.9, 0.95), rho=0.5):
        super().__init__(params, dict(lr=lr, betas=betas, rho=rho))

    def _params(self):
        return [p for g in self.param_groups for p in g["params"]]

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                s = self.state[p]
                if not s:
                    s.update(t=0, m=torch.zeros_like(p), h=torch.zeros_like(p))
                s["t"] += 1
                s["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                s["h"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                update = s["m"] / s["h"].sqrt().clamp_min(1e-6)
                p.add_(update.clamp_(-group["rho"], group["rho"]), alpha=-group["lr"])

    def moments(self):
        return [dict(self.state[p]) for p in self._params()]

    def load_moments(self, all_saved):
        for p, saved in zip(self._params(), all_saved):
            self.state[p] = saved


class TwoStage(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).to("cuda:0")
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.GELU(), nn.Linear(32, 16)).to("cuda:1")

    def forward(self, x):
        return self.decoder(self.encoder(x.to("cuda:0")).to("cuda:1"))


class Run:
    def __init__(self, folder):
        self.path = os.path.join(folder, "last.pt")
        self.model, self.epoch = TwoStage(), 0
        self.optimizer = ClippedNewton(self.model.parameters())
        if os.path.exists(self.path):
            self.restore()

    def restore(self):
        saved = torch.load(self.path, map_location="cuda:0")
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_moments(saved["moments"])
        self.epoch = saved["epoch"]

    def save(self):
        torch.save({"model": self.model.state_dict(), "moments": self.optimizer.moments(),
                    "epoch": self.epoch}, self.path)

    def train(self, epochs):
        while self.epoch < epochs:
            x = torch.randn(32, 16)
            loss = F.mse_loss(self.model(x), x.to("cuda:1"))
            self.model.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.epoch += 1
        self.save()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        print("first run", Run(folder).train(3))
        print("resumed", Run(folder).train(6))
