# cause: hard-coded-device|cache-or-beam-state-on-wrong-device
# guilty: state
import numpy as np
import torch
import torch.nn as nn

GPU = "cuda:1"


class Forecaster(nn.Module):
    """GRU over hourly load, predicts the next `horizon` hours."""

    def __init__(self, hidden=32, horizon=6):
        super().__init__()
        self.hidden = hidden
        self.cell = nn.GRUCell(2, hidden)
        self.readout = nn.Linear(hidden, horizon)

    def forward(self, series):
        state = torch.zeros(series.size(0), self.hidden, device="cuda:0")
        for t in range(series.size(1)):
            state = self.cell(series[:, t], state)
        return self.readout(state)


def windows(signal, length, horizon):
    xs, ys = [], []
    for s in range(0, len(signal) - length - horizon, 5):
        chunk = signal[s : s + length]
        hour = np.arange(s, s + length) % 24 / 24.0
        xs.append(np.stack([chunk, hour], 1))
        ys.append(signal[s + length : s + length + horizon])
    return torch.tensor(np.array(xs), dtype=torch.float32), torch.tensor(np.array(ys), dtype=torch.float32)


signal = np.sin(np.arange(600) / 24 * 2 * np.pi) + 0.1 * np.random.randn(600)
X, Y = windows(signal, 48, 6)
model = Forecaster().to(GPU)
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(2):
    for i in range(0, len(X), 32):
        x = X[i : i + 32].to(GPU)
        y = Y[i : i + 32].to(GPU)
        loss = nn.functional.l1_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 4))
