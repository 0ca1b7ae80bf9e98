# cause: optimizer-built-before-move
import torch
from torch import nn


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, decay=decay))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["momentum"] = torch.zeros_like(p, memory_format=torch.preserve_format)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                m = self.state[p]["momentum"]
                direction = torch.sign(m * b1 + p.grad * (1 - b1))
                p.mul_(1 - group["lr"] * group["decay"]).add_(direction, alpha=-group["lr"])
                m.lerp_(p.grad, 1 - b2)


class Oscillator(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )
        self.register_buffer("omega", torch.tensor(3.0))

    def residual(self, t):
        t = t.requires_grad_(True)
        x = self.net(t)
        v = torch.autograd.grad(x.sum(), t, create_graph=True)[0]
        a = torch.autograd.grad(v.sum(), t, create_graph=True)[0]
        return a + 0.4 * v + self.omega**2 * x


class Solver:
    def __init__(self, problem, **options):
        self.problem = problem
        self.optimizer = Lion(problem.parameters(), **options)

    def solve(self, steps, device):
        self.problem.to(device)
        start = torch.zeros(1, 1, device=device)
        for _ in range(steps):
            t = torch.rand(64, 1).to(device)
            interior = self.problem.residual(t).pow(2).mean()
            boundary = (self.problem.net(start) - 1.0).pow(2).mean()
            loss = interior + 10 * boundary
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    print("loss", Solver(Oscillator(), lr=1e-3).solve(5, torch.device("cuda:0")))
