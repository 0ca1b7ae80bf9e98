# cause: loss-or-label-on-other-device
# guilty: soft
import torch
import torch.nn.functional as F
from torch import nn


def net(width):
    return nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Linear(width, 6))


class Distil(nn.Module):
    def __init__(self, temperature=2.0, mix=0.5):
        super().__init__()
        self.temperature, self.mix = temperature, mix

    def forward(self, logits, soft, y):
        T = self.temperature
        hard = F.cross_entropy(logits, y)
        logq = F.log_softmax(logits / T, -1)
        kd = F.kl_div(logq, soft, reduction="batchmean") * T * T
        return self.mix * hard + (1 - self.mix) * kd


big = net(256).to("cuda:1").eval().requires_grad_(False)
small = net(16).to("cuda:0")
criterion = Distil()
opt = torch.optim.Adam(small.parameters(), lr=1e-3)

for _ in range(10):
    x = torch.randn(32, 20)
    y = torch.randint(0, 6, (32,), device="cuda:0")
    with torch.no_grad():
        soft = F.softmax(big(x.to("cuda:1")) / criterion.temperature, -1)
    loss = criterion(small(x.to("cuda:0")), soft, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
