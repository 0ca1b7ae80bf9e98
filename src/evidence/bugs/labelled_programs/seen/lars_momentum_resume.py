# cause: optimizer-state-on-other-device
# guilty: buf (self.momentum[i], momentum)
# line: 35
# repair: in Lars.load_state move each momentum to its parameter: self.momentum = [m.to(p.device) for m, p in zip(state["momentum"], self.params)] OR load the checkpoint with map_location of the run's device in Trainer.resume
"""LARS with its own state, resumed from a checkpoint in the middle of a run."""
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn


class Lars:
    """Layer-wise adaptive rate scaling; keeps its momentum outside of torch.optim."""

    def __init__(self, params, lr=0.1, momentum=0.9, trust=0.02):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.beta, self.trust = lr, momentum, trust
        self.momentum = [torch.zeros_like(p) for p in self.params]
        self.steps = 0

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        self.steps += 1
        for p, buf in zip(self.params, self.momentum):
            if p.grad is None:
                continue
            ratio = self.trust * p.norm() / (p.grad.norm() + 1e-9)
            rate = self.lr * ratio.clamp(max=1.0)
            buf.mul_(self.beta).add_(p.grad * rate)
            p.sub_(buf)

    def state(self):
        return {"momentum": self.momentum, "steps": self.steps}

    def load_state(self, state):
        self.momentum = list(state["momentum"])
        self.steps = state["steps"]


class Checkpointer:
    def __init__(self, folder):
        self.path = os.path.join(folder, "last.pt")

    def save(self, **objects):
        torch.save(objects, self.path)

    def load(self):
        # via the host, so that the card does not hold everything twice
        return torch.load(self.path, map_location="cpu")


class Trainer:
    def __init__(self, folder, device):
        self.device = torch.device(device)
        self.model = nn.Sequential(nn.Linear(12, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 4))
        self.model.to(self.device)
        self.optimizer = Lars(self.model.parameters())
        self.checkpointer = Checkpointer(folder)
        self.epoch = 0

    def data(self, batches):
        g = torch.Generator().manual_seed(self.epoch)
        for _ in range(batches):
            x = torch.randn(16, 12, generator=g)
            yield x.to(self.device), (x[:, :4].argmax(-1)).to(self.device)

    def train_epoch(self):
        total = 0.0
        for x, y in self.data(3):
            loss = F.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        self.epoch += 1
        return total / 3

    def save(self):
        self.checkpointer.save(model=self.model.state_dict(), optimizer=self.optimizer.state(),
                               epoch=self.epoch)

    def resume(self):
        state = self.checkpointer.load()
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state(state["optimizer"])
        self.epoch = state["epoch"]


if __name__ == "__main__":
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        first = Trainer(folder, "cuda:0")
        print("epoch", first.epoch, first.train_epoch())
        first.save()
        second = Trainer(folder, "cuda:0")
        second.resume()
        print("epoch", second.epoch, second.train_epoch())
