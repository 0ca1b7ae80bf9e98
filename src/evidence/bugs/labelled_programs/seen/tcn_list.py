# cause: module-left-on-other-device
# guilty: ?
import torch
from torch import nn


class CausalConv(nn.Module):
    def __init__(self, c_in, c_out, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(c_in, c_out, 3, dilation=dilation)

    def forward(self, x):
        return self.conv(nn.functional.pad(x, (self.pad, 0)))


class TCN(nn.Module):
    def __init__(self, n_in=2, width=8, depth=3):
        super().__init__()
        self.inp = nn.Conv1d(n_in, width, 1)
        self.layers, self.skips = [], nn.ModuleList()
        for i in range(depth):
            self.layers.append(CausalConv(width, width, 2 ** i))
            self.skips.append(nn.Conv1d(width, width, 1))
        self.out = nn.Conv1d(width, 1, 1)

    def forward(self, x):
        h = self.inp(x)
        total = torch.zeros_like(h)
        for conv, skip in zip(self.layers, self.skips):
            z = torch.tanh(conv(h))
            total = total + skip(z)
            h = h + z
        return self.out(torch.relu(total))


def series(n, length, device):
    t = torch.arange(length, device=device).float()
    phase = torch.rand(n, 1, device=device) * 6.28
    wave = torch.sin(0.3 * t + phase)
    trend = (t / length).expand(n, -1)
    return torch.stack([wave, trend], dim=1)


def main():
    torch.manual_seed(0)
    gpu = "cuda:1"
    model = TCN().to(gpu)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for epoch in range(3):
        data = series(6, 40, gpu)
        pred = model(data[:, :, :-1])
        loss = nn.functional.l1_loss(pred[:, 0], data[:, 0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, loss.item())


main()
