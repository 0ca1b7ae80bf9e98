# cause: numpy-of-gpu-tensor
# guilty: v[-last:] (mae)
import numpy as np
import torch
import torch.nn as nn


def make_series(n=64, t=30):
    phase = torch.rand(n, 1) * 6.28
    return torch.sin(torch.arange(t + 1) / 4 + phase) + 0.1 * torch.randn(n, t + 1)


class TCN(nn.Module):
    def __init__(self, c=16, depth=3):
        super().__init__()
        layers, cin = [], 1
        for i in range(depth):
            layers += [nn.ConstantPad1d((2 * 2 ** i, 0), 0.0), nn.Conv1d(cin, c, 3, dilation=2 ** i), nn.ReLU()]
            cin = c
        self.net = nn.Sequential(*layers, nn.Conv1d(c, 1, 1))

    def forward(self, x):
        return self.net(x.unsqueeze(1)).squeeze(1)


class History(dict):
    def log(self, **values):
        for k, v in values.items():
            self.setdefault(k, []).append(v)

    def summary(self, last=5):
        return {k: float(np.mean(v[-last:])) for k, v in self.items()}


def step(model, x):
    pred = model(x[:, :-1])
    mse = nn.functional.mse_loss(pred, x[:, 1:])
    mae = (pred - x[:, 1:]).abs().mean()
    return mse, mae


def train(model, data, epochs=2, batch=16, device="cuda"):
    model, data = model.to(device), data.to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    hist = History()
    for epoch in range(epochs):
        for idx in torch.randperm(len(data)).split(batch):
            mse, mae = step(model, data[idx.to(device)])
            opt.zero_grad()
            mse.backward()
            opt.step()
            hist.log(mse=mse.item(), mae=mae.detach())
        print("epoch", epoch, hist.summary())
    return hist


if __name__ == "__main__":
    torch.manual_seed(0)
    train(TCN(), make_series())
