# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: weight (kernel)
# line: 15
# repair: in smooth() take kernel=None and build it on the signal's device inside (kernel = torch.tensor([...]).to(x.device)) OR weight = kernel.to(x.device).view(1, 1, -1).expand(...)
"""Gait forecaster in two stages; both stages use the same smoothing helper."""
import torch
from torch import nn
import torch.nn.functional as F


def smooth(x, kernel=torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0], device="cuda:0") / 16):
    channels = x.shape[1]
    weight = kernel.view(1, 1, -1).expand(channels, 1, -1)
    pad = kernel.numel() // 2
    return F.conv1d(F.pad(x, (pad, pad), mode="replicate"), weight, groups=channels)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + self.conv(F.leaky_relu(x))


class Filter(nn.Module):
    def __init__(self, channels, depth):
        super().__init__()
        self.parts = nn.ModuleList([Residual(channels) for _ in range(depth)])

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return smooth(x)


class GaitNet(nn.Module):
    def __init__(self, sensors=6, channels=16, horizon=8):
        super().__init__()
        self.horizon = horizon
        self.inp = nn.Conv1d(sensors, channels, 1)
        self.early, self.late = Filter(channels, 2), Filter(channels, 2)
        self.out = nn.Conv1d(channels, sensors, 1)

    def on(self, first, second):
        self.first, self.second = first, second
        for m in (self.inp, self.early):
            m.to(first)
        for m in (self.late, self.out):
            m.to(second)
        return self

    def forward(self, x):
        h = self.early(self.inp(x.to(self.first)))
        return self.out(self.late(h.to(self.second)))[..., -self.horizon:]


if __name__ == "__main__":
    torch.manual_seed(0)
    net = GaitNet().on("cuda:0", "cuda:1")
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(3):
        walk = torch.cumsum(torch.randn(8, 6, 48), dim=-1) * 0.1
        loss = F.l1_loss(net(walk[..., :40]), walk[..., 40:].to("cuda:1"))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())
