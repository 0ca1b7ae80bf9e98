# cause: optimizer-state-on-other-device|optimizer-built-before-move
# guilty: ?
"""Warm-up on the small card, then hand the run over to the second one (same process, same optimizer)."""
import torch
from torch import nn


def make_model():
    return nn.Sequential(
        nn.Linear(8, 32),
        nn.LayerNorm(32),
        nn.ReLU(),
        nn.Linear(32, 8),
    )


class Runner:
    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, step_size=2, gamma=0.5)
        self.history = []

    def migrate(self, device):
        """Go on elsewhere."""
        self.device = torch.device(device)
        self.opt.zero_grad(set_to_none=True)
        self.model.to(self.device)

    def step(self, batch):
        batch = batch.to(self.device)
        noise = 0.1 * torch.randn_like(batch)
        rec = self.model(batch + noise)
        loss = nn.functional.mse_loss(rec, batch)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.sched.step()
        self.history.append(loss.item())


def main():
    torch.manual_seed(11)
    data = torch.randn(10, 16, 8)
    runner = Runner(make_model(), "cuda:0")
    for b in data[:4]:
        runner.step(b)
    print("warm-up", runner.history)
    runner.migrate("cuda:1")
    for b in data[4:]:
        runner.step(b)
    print("main", runner.history[4:])


if __name__ == "__main__":
    main()
