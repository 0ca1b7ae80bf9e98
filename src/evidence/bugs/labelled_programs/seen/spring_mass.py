# cause: generator-or-default-device|generator-on-other-device
# guilty: self.rng
"""Spring-mass surrogate; everything is created on the accelerator."""
import torch
from torch import nn

torch.set_default_device("cuda")


class Shuffler:
    def __init__(self, n, batch, seed):
        self.n, self.batch = n, batch
        self.rng = torch.Generator(device="cpu")
        self.rng.manual_seed(seed)

    def __iter__(self):
        order = torch.randperm(self.n, generator=self.rng)
        yield from order.split(self.batch)


def simulate(n, steps=20, dt=0.05):
    state = torch.randn(n, 2)
    k = 1 + torch.rand(n, 1)
    track = []
    for _ in range(steps):
        x, v = state.split(1, -1)
        v = v - dt * k * x
        state = torch.cat([x + dt * v, v], -1)
        track.append(state)
    return torch.stack(track, 1), k


class Surrogate(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 2))

    def forward(self, s, k):
        return s + self.f(torch.cat([s, k.unsqueeze(1).expand(*s.shape[:-1], 1)], -1))


def fit(tracks, k, epochs=2):
    net = Surrogate()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    loader = Shuffler(len(tracks), 16, seed=42)
    for e in range(epochs):
        for idx in loader:
            s = tracks[idx]
            loss = (net(s[:, :-1], k[idx]) - s[:, 1:]).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(e, loss.item())
    return net


fit(*simulate(48))
