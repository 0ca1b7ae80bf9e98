# cause: tensor-created-on-wrong-device
# guilty: self.low (prior.low)
# after: sbi-dev/sbi#515
import torch
from torch import nn


class BoxPrior:
    def __init__(self, low, high):
        self.low, self.high = torch.as_tensor(low), torch.as_tensor(high)

    def sample(self, count):
        return self.low + (self.high - self.low) * torch.rand(count, self.low.shape[0])

    def contains(self, theta):
        return ((theta >= self.low) & (theta <= self.high)).all(-1)


class Flow(nn.Module):
    def __init__(self, size, seen):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(seen, 16), nn.Tanh(), nn.Linear(16, 2 * size))

    def sample(self, count, x):
        mean, scale = self.net(x).chunk(2, -1)
        return mean + scale.exp() * torch.randn(count, mean.shape[-1], device=x.device)


prior = BoxPrior([-1.0, -1.0], [1.0, 1.0])
flow = Flow(2, 3).to("cuda:0")
observed = torch.zeros(3, device="cuda:0")
with torch.no_grad():
    drawn = flow.sample(50, observed)
    kept = drawn[prior.contains(drawn)]
print(len(kept))
