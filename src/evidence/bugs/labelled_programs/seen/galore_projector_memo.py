# cause: optimizer-state-on-other-device|tensor-created-on-wrong-device
# guilty: basis (self._bases, basis.t(), self._bases[key])
# line: 46
# repair: put the device into the key in LowRankProjector.basis: key = (tuple(grad.shape), grad.device) OR key the table by parameter (store the basis in self.state[p]) OR return self._bases[key].to(grad.device)
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import Optimizer


class LowRankProjector:
    """Left singular basis of a gradient, renewed every `every` calls."""

    def __init__(self, rank=4, every=50):
        self.rank, self.every = rank, every
        self._bases = {}
        self._age = {}

    def basis(self, grad):
        key = tuple(grad.shape)
        age = self._age.get(key, 0)
        if key not in self._bases or age >= self.every:
            u, _, _ = torch.linalg.svd(grad.float(), full_matrices=False)
            self._bases[key] = u[:, : self.rank].contiguous()
            age = 0
        self._age[key] = age + 1
        return self._bases[key]


class GaLoreAdam(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-8, rank=4):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))
        self.projector = LowRankProjector(rank)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad
                basis = None
                if grad.dim() == 2 and min(grad.shape) > self.projector.rank:
                    basis = self.projector.basis(grad)
                    grad = basis.t() @ grad
                state = self.state[p]
                if not state:
                    state["t"] = 0
                    state["m"] = torch.zeros_like(grad)
                    state["v"] = torch.zeros_like(grad)
                state["t"] += 1
                state["m"].mul_(b1).add_(grad, alpha=1 - b1)
                state["v"].mul_(b2).addcmul_(grad, grad, value=1 - b2)
                m = state["m"] / (1 - b1 ** state["t"])
                v = state["v"] / (1 - b2 ** state["t"])
                update = m / (v.sqrt() + group["eps"])
                if basis is not None:
                    update = basis @ update
                p.add_(update, alpha=-group["lr"])


class Stage(nn.Module):
    def __init__(self, dim, n):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(n))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


class Forecaster(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.front = Stage(dim, 2).to("cuda:0")
        self.back = Stage(dim, 2).to("cuda:1")
        self.out = nn.Linear(dim, 1).to("cuda:1")

    def forward(self, x):
        x = self.front(x.to("cuda:0"))
        x = self.back(x.to("cuda:1"))
        return self.out(x).squeeze(-1)


if __name__ == "__main__":
    torch.manual_seed(1)
    model = Forecaster()
    optimizer = GaLoreAdam(model.parameters(), lr=3e-3, rank=4)
    for it in range(4):
        x = torch.randn(16, 24)
        y = x.sum(-1).to("cuda:1")
        loss = F.smooth_l1_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"iter {it} loss {loss.item():.4f}")
