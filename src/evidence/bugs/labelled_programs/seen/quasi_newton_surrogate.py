# cause: optimizer-state-on-other-device|block-split-across-devices
# guilty: optimizer (its parameters, the flat gradient, model.parameters())
# line: 38
# repair: LBFGS flattens all gradients into one vector, so all its parameters must be on one card: place the whole Surrogate on one card in Surrogate.__init__ (trunk and readout on the same device) OR use one LBFGS per card OR use an optimizer that works parameter by parameter (Adam)
"""Plasma surrogate: a coarse fit with Adam, then a polish with L-BFGS, as in many PINN packages."""
import torch
import torch.nn as nn


class Surrogate(nn.Module):
    def __init__(self, inputs=3, width=24, outputs=2, devices=("cuda:0", "cuda:1")):
        super().__init__()
        self.devices = devices
        self.trunk = nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.readout = nn.Linear(width, outputs)
        self.trunk.to(devices[0])
        self.readout.to(devices[1])

    def forward(self, x):
        return self.readout(self.trunk(x.to(self.devices[0])).to(self.devices[1]))


class Phase:
    def __init__(self, name, steps, factory):
        self.name, self.steps, self.factory = name, steps, factory

    def run(self, model, loss_fn):
        optimizer = self.factory(model.parameters())

        def closure():
            optimizer.zero_grad()
            loss = loss_fn(model)
            loss.backward()
            return loss

        last = None
        for _ in range(self.steps):
            last = optimizer.step(closure)
        print(self.name, float(last))
        return model


class Fitter:
    def __init__(self, phases):
        self.phases = phases

    def fit(self, model, x, y):
        def loss_fn(net):
            out = net(x)
            return ((out - y.to(out.device)) ** 2).mean()

        for phase in self.phases:
            phase.run(model, loss_fn)
        return model


def profile_data(n=128):
    x = torch.rand(n, 3) * 2 - 1
    y = torch.stack([torch.sin(2 * x[:, 0]) * x[:, 1], torch.exp(-x[:, 2] ** 2)], -1)
    return x, y


if __name__ == "__main__":
    torch.manual_seed(0)
    fitter = Fitter([Phase("adam", 20, lambda p: torch.optim.Adam(p, lr=1e-2)),
                     Phase("lbfgs", 3, lambda p: torch.optim.LBFGS(p, max_iter=5))])
    fitter.fit(Surrogate(), *profile_data())
