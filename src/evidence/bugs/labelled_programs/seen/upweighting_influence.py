# cause: loss-or-label-on-other-device|block-split-across-devices
# guilty: term (terms, (g * v).sum())
# line: 25
# repair: bring each partial product to one card before adding: `total = total + term.to(total.device)` (start from zero on the loss device) in dot()
"""Influence of single training rows by Hessian-vector products (damped Neumann series)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Churn(nn.Module):
    def __init__(self, features=10, hidden=16):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(features, hidden), nn.Softplus()).to("cuda:0")
        self.right = nn.Linear(hidden, 2).to("cuda:1")

    def forward(self, x):
        return self.right(self.left(x.to("cuda:0")).to("cuda:1"))


def dot(left, right):
    total = None
    for g, v in zip(left, right):
        term = (g * v).sum()
        total = term if total is None else total + term
    return total


class InfluenceEngine:
    def __init__(self, model, damping=0.05, scale=10.0, depth=4):
        self.model = model
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.damping = damping
        self.scale = scale
        self.depth = depth

    def loss(self, x, y):
        out = self.model(x)
        return F.cross_entropy(out, y.to(out.device))

    def grad(self, x, y, create_graph=False):
        return torch.autograd.grad(self.loss(x, y), self.params, create_graph=create_graph)

    def hvp(self, x, y, vectors):
        grads = self.grad(x, y, create_graph=True)
        return torch.autograd.grad(dot(grads, vectors), self.params)

    def inverse_hvp(self, x, y, vectors):
        estimate = [v.clone() for v in vectors]
        for _ in range(self.depth):
            curved = self.hvp(x, y, estimate)
            estimate = [v + (1 - self.damping) * e - c / self.scale
                        for v, e, c in zip(vectors, estimate, curved)]
        return estimate


if __name__ == "__main__":
    torch.manual_seed(5)
    x, y = torch.randn(32, 10), torch.randint(0, 2, (32,))
    engine = InfluenceEngine(Churn())
    test_grad = engine.grad(x[:4], y[:4])
    s_test = engine.inverse_hvp(x, y, test_grad)
    scores = [-dot(s_test, engine.grad(x[i:i + 1], y[i:i + 1])).item() for i in range(3)]
    print(scores)
