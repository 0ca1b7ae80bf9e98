# cause: optimizer-state-on-other-device
# guilty: self.opt
"""Trainer that keeps a host snapshot and rolls back when the loss explodes."""
import copy
import torch
from torch import nn


class Guarded:
    def __init__(self, model, device, every=5):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.opt = torch.optim.RMSprop(self.model.parameters(), lr=1e-3, foreach=False)
        self.every, self.best, self.rollbacks = every, float("inf"), 0
        self.snapshot = None

    def save(self):
        weights = {k: v.detach().cpu().clone() for k, v in self.model.state_dict().items()}
        slots = {p: {k: v.detach().cpu().clone() if torch.is_tensor(v) else copy.copy(v) for k, v in s.items()}
                 for p, s in self.opt.state.items()}
        self.snapshot = weights, slots

    def restore(self):
        weights, slots = self.snapshot
        self.model.load_state_dict(weights)
        for p, slot in slots.items():
            self.opt.state[p] = {k: v.clone() if torch.is_tensor(v) else v for k, v in slot.items()}
        self.rollbacks += 1

    def step(self, x, y):
        out = self.model(x.to(self.device))
        loss = nn.functional.mse_loss(out, y.to(self.device))
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    def run(self, stream):
        for i, (x, y) in enumerate(stream):
            value = self.step(x, y)
            if i % self.every == 0:
                self.save()
            if value > 20 * self.best:
                print("spike at", i, round(value, 2), "- rolling back")
                self.restore()
            self.best = min(self.best, value)
        return self.best


def stream(n):
    gen = torch.Generator().manual_seed(0)
    for i in range(n):
        x = torch.randn(32, 8, generator=gen)
        y = x.mean(1, keepdim=True)
        yield x, y + (100.0 if i == 7 else 0.0)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    guard = Guarded(net, "cuda:0")
    best = guard.run(stream(15))
    print("best", best, "rollbacks", guard.rollbacks)
