# cause: optimizer-state-on-other-device|tensor-created-on-wrong-device
# guilty: self.sums[name] (sums, total)
# line: 44
# repair: make each sum beside its parameter: torch.zeros_like(p, dtype=torch.float32) without device=self.device in GradSums.__init__ OR self.sums[name].add_(p.grad.to(self.sums[name].device)) together with moving back in write_back
"""Gradient accumulation in float32 for a bfloat16 model whose halves are on two cards."""
import torch
import torch.nn.functional as F
from torch import nn


class Half(nn.Module):
    def __init__(self, layers, device):
        super().__init__()
        self.layers = nn.Sequential(*layers).to(device=device, dtype=torch.bfloat16)
        self.device = torch.device(device)

    def forward(self, x):
        return self.layers(x.to(self.device))


class Halves(nn.Module):
    def __init__(self, features=10, width=32, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.lower = Half([nn.Linear(features, width), nn.GELU(), nn.Linear(width, width)], devices[0])
        self.upper = Half([nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1)], devices[1])

    def forward(self, x):
        return self.upper(self.lower(x)).squeeze(-1)


class GradSums:
    """Sums of the micro-batches' gradients, kept in float32."""

    def __init__(self, model):
        self.named = dict(model.named_parameters())
        self.device = next(iter(self.named.values())).device
        self.sums = {name: torch.zeros_like(p, dtype=torch.float32, device=self.device)
                     for name, p in self.named.items()}
        self.count = 0

    @torch.no_grad()
    def collect(self):
        for name, p in self.named.items():
            self.sums[name].add_(p.grad)
            p.grad = None
        self.count += 1

    @torch.no_grad()
    def write_back(self):
        for name, p in self.named.items():
            p.grad = (self.sums[name] / self.count).to(p.dtype)
            self.sums[name].zero_()
        self.count = 0


class MicroTrainer:
    def __init__(self, model, micro, lr=0.01):
        self.model = model
        self.micro = micro
        self.sums = GradSums(model)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)

    def step(self, x, y):
        losses = []
        for part, target in zip(x.chunk(self.micro), y.chunk(self.micro)):
            out = self.model(part)
            loss = F.mse_loss(out.float(), target.to(out.device))
            loss.backward()
            self.sums.collect()
            losses.append(loss.item())
        self.sums.write_back()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return sum(losses) / len(losses)


def make_data(rows, features):
    x = torch.randn(rows, features)
    return x.to(torch.bfloat16), x.sin().sum(1)


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = MicroTrainer(Halves(), micro=4)
    for epoch in range(3):
        print(epoch, trainer.step(*make_data(32, 10)))
