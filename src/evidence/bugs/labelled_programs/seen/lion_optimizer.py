# cause: optimizer-state-on-other-device
# guilty: m
import torch
from torch import nn
from torch.optim import Optimizer


class Lion(Optimizer):
    """EvoLved Sign Momentum (Chen et al., 2023)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = p.grad
                state = self.state[p]
                if not state:
                    state["m"] = torch.zeros(p.shape, dtype=p.dtype)
                m = state["m"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = m * b1 + g * (1 - b1)
                p.add_(update.sign(), alpha=-group["lr"])
                m.mul_(b2).add_(g, alpha=1 - b2)
        return loss


class Highway(nn.Module):
    def __init__(self, d, depth):
        super().__init__()
        self.h = nn.ModuleList(nn.Linear(d, d) for _ in range(depth))
        self.t = nn.ModuleList(nn.Linear(d, d) for _ in range(depth))
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        for h, t in zip(self.h, self.t):
            gate = torch.sigmoid(t(x) - 1.0)
            x = gate * torch.relu(h(x)) + (1 - gate) * x
        return self.out(x).squeeze(-1)


def friedman(n, device):
    x = torch.rand(n, 10, device=device)
    y = 10 * torch.sin(3.1416 * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, y / 10


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    model = Highway(10, 3).to(device)
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if name.endswith("bias") else decay).append(p)
    opt = Lion([{"params": decay, "weight_decay": 0.1}, {"params": plain}], lr=3e-3)
    x, y = friedman(256, device)
    for step in range(10):
        def closure():
            opt.zero_grad()
            value = nn.functional.mse_loss(model(x), y)
            value.backward()
            return value
        loss = opt.step(closure)
    print(step, loss.item())


if __name__ == "__main__":
    main()
