# cause: optimizer-state-on-other-device
# guilty: s
import torch
from torch import nn


class Average:
    """Exponential moving average of the weights."""

    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def step(self, model):
        for n, p in model.named_parameters():
            s = self.shadow[n]
            s.mul_(self.decay).add_(p, alpha=1 - self.decay)

    def write_to(self, model):
        model.load_state_dict(self.shadow, strict=False)


def batches(n, device):
    for _ in range(n):
        x = torch.randn(8, 12)
        yield x.to(device), x.sum(1, keepdim=True).to(device)


model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 1))
slow = Average(model)

device = "cuda:0"
model.to(device)
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)

for x, y in batches(20, device):
    loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    slow.step(model)
slow.write_to(model)
