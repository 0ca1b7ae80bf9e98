# cause: optimizer-state-on-other-device|tensor-created-on-wrong-device
# guilty: total (norm, self.total)
# line: 40
# repair: in NormalisedGD.step divide by the norm on the parameter's card, p.grad / total.to(p.device) OR return the norm as a number (.item()) from global_norm
"""Descent by the normalised gradient, for a model whose layers lie on two cards."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def global_norm(grads):
    """Euclidean norm of all gradients, gathered on the card of the first."""
    home = grads[0].device
    return torch.stack([g.norm().to(home) for g in grads]).norm() + 1e-12


class NormalisedGD(torch.optim.Optimizer):
    def __init__(self, params, lr=0.05, beta=0.8, decay=0.0):
        super().__init__(params, {"lr": lr, "beta": beta, "decay": decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with_grad = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        total = global_norm([p.grad for p in with_grad])
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, group, total)
        return loss

    def _update(self, p, group, total):
        state = self.state[p]
        if not state:
            state["momentum"] = torch.zeros_like(p)
        buf = state["momentum"]
        buf.mul_(group["beta"]).add_(p.grad / total, alpha=1 - group["beta"])
        if group["decay"]:
            p.mul_(1 - group["lr"] * group["decay"])
        p.add_(buf, alpha=-group["lr"])


class ResidualMLP(nn.Module):
    def __init__(self, width=32, depth=6, split=3):
        super().__init__()
        self.split = split
        self.inlet = nn.Linear(2, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.outlet = nn.Linear(width, 2)

    def across(self, lower, upper):
        self.inlet.to(lower)
        self.outlet.to(upper)
        for i, layer in enumerate(self.layers):
            layer.to(lower if i < self.split else upper)
        return self

    def forward(self, x):
        x = torch.tanh(self.inlet(x))
        for layer in self.layers:
            x = x.to(layer.weight.device)
            x = x + torch.tanh(layer(x))
        return self.outlet(x)


def two_moons(count):
    angle = torch.rand(count) * torch.pi
    label = torch.randint(0, 2, (count,))
    x = torch.stack([angle.cos() + label, angle.sin() * (1 - 2 * label) + 0.5 * label], dim=1)
    return x + 0.05 * torch.randn_like(x), label


if __name__ == "__main__":
    torch.manual_seed(0)
    lower, upper = torch.device("cuda:0"), torch.device("cuda:1")
    model = ResidualMLP().across(lower, upper)
    optimizer = NormalisedGD(model.parameters(), decay=1e-3)
    for step in range(5):
        x, y = two_moons(64)
        loss = F.cross_entropy(model(x.to(lower)), y.to(upper))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
