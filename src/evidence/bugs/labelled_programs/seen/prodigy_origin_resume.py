# cause: optimizer-state-on-other-device
# guilty: origin (self.origin[i], self.origin)
# line: 29
# repair: in DistanceSGD.load_state_dict move each kept tensor to its parameter, self.origin = [t.to(p.device) for t, p in zip(...)] OR in resume load the file with map_location=device
"""A step-size-free optimizer that measures the distance to the first point, with resume."""
import io

import torch
import torch.nn as nn
import torch.nn.functional as F


class DistanceSGD(torch.optim.Optimizer):
    def __init__(self, params, d0=1e-2, beta=0.9):
        super().__init__(params, {"beta": beta})
        self.d = d0
        self.numerator = 0.0
        self.denominator = 1e-12
        self.origin = [p.detach().clone() for p in self._flat()]

    def _flat(self):
        return [p for group in self.param_groups for p in group["params"]]

    @torch.no_grad()
    def step(self, closure=None):
        for origin, p in zip(self.origin, self._flat()):
            if p.grad is None:
                continue
            self.numerator += self.d * torch.dot(p.grad.flatten(), (origin - p).flatten()).item()
            self.denominator += p.grad.abs().sum().item()
        self.d = max(self.d, self.numerator / self.denominator)
        for group in self.param_groups:
            for p in group["params"]:
                buf = self.state[p].setdefault("momentum", torch.zeros_like(p))
                buf.mul_(group["beta"]).add_(p.grad)
                p.add_(buf, alpha=-self.d)

    def state_dict(self):
        state = super().state_dict()
        state["distance"] = {"d": self.d, "num": self.numerator, "den": self.denominator,
                             "origin": self.origin}
        return state

    def load_state_dict(self, state):
        extra = state.pop("distance")
        super().load_state_dict(state)
        self.d, self.numerator, self.denominator = extra["d"], extra["num"], extra["den"]
        self.origin = extra["origin"]


class Run:
    def __init__(self, device):
        self.device = torch.device(device)
        self.model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1)).to(self.device)
        self.optimizer = DistanceSGD(self.model.parameters())

    def fit(self, steps, seed):
        gen = torch.Generator().manual_seed(seed)
        for _ in range(steps):
            x = torch.randn(32, 10, generator=gen).to(self.device)
            loss = F.mse_loss(self.model(x), x[:, :3].sum(1, keepdim=True))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def save(self):
        file = io.BytesIO()
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, file)
        file.seek(0)
        return file

    def resume(self, file):
        state = torch.load(file, map_location="cpu")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


if __name__ == "__main__":
    torch.manual_seed(0)
    first = Run("cuda:0")
    print("first part", first.fit(5, seed=1))
    second = Run("cuda:0")
    second.resume(first.save())
    print("after resume", second.fit(5, seed=2))
