# cause: optimizer-state-on-other-device
# guilty: z (state["z"], self.state[p]["z"])
"""Train without a schedule, stop, and evaluate the averaged weights in a later run."""
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F


class AveragingSGD(torch.optim.Optimizer):
    """Keeps an iterate z beside the averaged weights; eval() shows the average."""

    def __init__(self, params, lr=0.1, beta=0.9):
        super().__init__(params, dict(lr=lr, beta=beta, mode="train", k=0))

    def eval(self):
        for group in self.param_groups:
            if group["mode"] != "train":
                continue
            for p in group["params"]:
                z = self.state[p].get("z")
                if z is not None:
                    p.data.lerp_(z, 1 - 1 / group["beta"])
            group["mode"] = "eval"

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["k"] += 1
            weight = 1.0 / group["k"]
            for p in group["params"]:
                state = self.state[p]
                if "z" not in state:
                    state["z"] = p.detach().clone()
                p.lerp_(state["z"], weight)
                p.add_(p.grad, alpha=group["lr"] * (group["beta"] * (1 - weight) - 1))
                state["z"].sub_(p.grad, alpha=group["lr"])

    def averages(self):
        return [self.state[p]["z"] for group in self.param_groups for p in group["params"]]

    def load_averages(self, tensors):
        params = [p for group in self.param_groups for p in group["params"]]
        for p, z in zip(params, tensors):
            self.state[p]["z"] = z


class Session:
    def __init__(self, device, path):
        self.device = device
        self.path = path
        self.model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4)).to(device)
        self.optimizer = AveragingSGD(self.model.parameters())

    def fit(self, x, y, steps):
        for _ in range(steps):
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()

    def save(self):
        torch.save({"model": self.model.state_dict(), "z": self.optimizer.averages()}, self.path)

    def restore(self):
        saved = torch.load(self.path, map_location="cpu")
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_averages(saved["z"])

    def accuracy(self, x, y):
        self.optimizer.eval()
        with torch.no_grad():
            return (self.model(x).argmax(1) == y).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(1)
    device = torch.device("cuda:1")
    x = torch.randn(200, 10, device=device)
    y = x[:, :4].argmax(dim=1)
    path = os.path.join(tempfile.mkdtemp(), "run.pt")
    first = Session(device, path)
    first.fit(x, y, 20)
    first.save()
    second = Session(device, path)
    second.restore()
    print("accuracy", second.accuracy(x, y))
