# cause: device-from-unordered-set|tensor-created-on-wrong-device
# guilty: bias
import torch
from torch import nn
import torch.nn.functional as F


def get_devices(model):
    return {p.device for p in model.parameters()}


def main_device(model):
    return next(iter(get_devices(model)))


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def forward(self, x, bias):
        k, v = self.kv(x).chunk(2, -1)
        w = self.q(x) @ k.transpose(1, 2) * x.size(-1) ** -0.5 + bias
        return x + self.o(w.softmax(-1) @ v)


class Stack(nn.Module):
    def __init__(self, d=16, depth=4):
        super().__init__()
        self.inp = nn.Linear(5, d)
        self.layers = nn.ModuleList(Attention(d) for _ in range(depth))
        self.out = nn.Linear(d, 5)

    def forward(self, x, bias):
        h = self.inp(x.to(self.inp.weight.device))
        for l in self.layers:
            h = l(h.to(l.o.weight.device), bias)
        return self.out(h.to(self.out.weight.device))


class Forecaster:
    def __init__(self, depth=4):
        self.model = Stack(depth=depth)
        for i, l in enumerate(self.model.layers):
            l.to(f"cuda:{i * 2 // depth}")
        self.model.inp.to("cuda:0")
        self.model.out.to("cuda:1")
        self.device = main_device(self.model)

    def window_bias(self, t, reach):
        i = torch.arange(t, device=self.device)
        far = (i[:, None] - i[None]).abs() > reach
        return torch.zeros(t, t, device=self.device).masked_fill(far, float("-inf"))

    def train(self, series, steps=3):
        opt = torch.optim.Adam(self.model.parameters(), 1e-3)
        for _ in range(steps):
            pred = self.model(series[:, :-1], self.window_bias(series.size(1) - 1, 6))
            loss = F.mse_loss(pred, series[:, 1:].to(pred.device))
            opt.zero_grad()
            loss.backward()
            opt.step()
        return loss.item()


t = torch.linspace(0, 12, 40)
series = torch.sin(t[None, :, None] + torch.rand(6, 1, 5))
print(Forecaster().train(series))
