# cause: tensor-created-on-wrong-device
# guilty: trace
"""Irregularly sampled sequences: a recurrent jump at each observation, an ODE between."""
import torch
from torch import nn


class Drift(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 2 * dim), nn.Tanh(), nn.Linear(2 * dim, dim))

    def forward(self, h):
        return self.net(h)


def rk4(f, h, dt, substeps=2):
    dt = dt.unsqueeze(-1) / substeps
    for _ in range(substeps):
        k1 = f(h)
        k2 = f(h + dt / 2 * k1)
        k3 = f(h + dt / 2 * k2)
        k4 = f(h + dt * k3)
        h = h + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return h


class JumpODE(nn.Module):
    def __init__(self, inp, hidden, out):
        super().__init__()
        self.hidden = hidden
        self.drift = Drift(hidden)
        self.cell = nn.GRUCell(inp, hidden)
        self.readout = nn.Linear(hidden, out)

    def forward(self, x, times):
        steps, batch, _ = x.shape
        gaps = torch.diff(times, dim=0, prepend=times[:1])
        h = x.new_zeros(batch, self.hidden)
        trace = torch.zeros(steps, batch, self.hidden)
        for i in range(steps):
            h = rk4(self.drift, h, gaps[i])
            h = self.cell(x[i], h)
            trace[i] = h
        return self.readout(trace)


def spirals(batch, steps, device):
    times = torch.rand(steps, batch).cumsum(0)
    phase = torch.rand(batch) * 6.28
    clean = torch.stack([torch.cos(times + phase), torch.sin(times + phase)], dim=-1)
    noisy = clean + 0.05 * torch.randn_like(clean)
    return noisy.to(device), times.to(device), clean.to(device)


def main():
    torch.manual_seed(27)
    device = torch.device("cuda")
    model = JumpODE(2, 12, 2).to(device)
    opt = torch.optim.Adamax(model.parameters(), lr=1e-2)
    for it in range(4):
        noisy, times, clean = spirals(6, 10, device)
        loss = (model(noisy, times) - clean).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{it}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
