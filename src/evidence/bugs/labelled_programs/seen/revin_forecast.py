# cause: extra-input-on-wrong-device|cache-or-beam-state-on-wrong-device|block-split-across-devices
# guilty: self.stdev (self.mean or stdev)
"""Reversible instance normalisation around a forecaster whose head has a card of its own."""
import torch
from torch import nn


class RevIN(nn.Module):
    def __init__(self, channels, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.channels = channels

    def forward(self, x, mode):
        if mode == "norm":
            self.mean = x.mean(1, keepdim=True).detach()
            self.stdev = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + self.eps).detach()
            return (x - self.mean) / self.stdev
        if mode == "denorm":
            return x * self.stdev + self.mean
        raise NotImplementedError(mode)


class PatchForecaster(nn.Module):
    def __init__(self, channels=4, seq=64, pred=16, patch=8, d=48, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.first, self.second = (torch.device(d_) for d_ in devices)
        self.patch, self.channels = patch, channels
        self.revin = RevIN(channels)
        self.embed = nn.Linear(patch, d).to(self.first)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d, 4, 96, batch_first=True, dropout=0.0), 2, enable_nested_tensor=False
        ).to(self.first)
        self.head = nn.Linear(d * (seq // patch), pred).to(self.second)

    def forward(self, x):
        x = self.revin(x, "norm")
        b, t, c = x.shape
        p = x.transpose(1, 2).reshape(b * c, t // self.patch, self.patch)
        z = self.encoder(self.embed(p)).flatten(1).to(self.second)
        y = self.head(z).view(b, c, -1).transpose(1, 2)
        return self.revin(y, "denorm")


def run():
    net = PatchForecaster()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(2):
        x, y = torch.randn(8, 64, 4), torch.randn(8, 16, 4)
        loss = (net(x.to(net.first)) - y.to(net.second)).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


run()
