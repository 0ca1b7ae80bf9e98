# cause: data-parallel-replica-device
# guilty: self.gate_weight (weight bound in __init__, self)
# line: 22
# repair: do not keep bound methods of self: in GatedPool.__init__ keep the name and look it up in forward (`getattr(self, "_" + self.kind)(x)`), so that each replica uses its own parameters
"""Attention pooling over bags of cells (multiple instance learning), run with DataParallel."""
import torch
import torch.nn as nn


class GatedPool(nn.Module):
    def __init__(self, dim, hidden, kind="gated"):
        super().__init__()
        self.score_weight = nn.Parameter(torch.randn(hidden, dim) / dim ** 0.5)
        self.gate_weight = nn.Parameter(torch.randn(hidden, dim) / dim ** 0.5)
        self.out = nn.Linear(hidden, 1)
        self.attend = {"gated": self._gated, "plain": self._plain}[kind]

    def _plain(self, x):
        return torch.tanh(x @ self.score_weight.T)

    def _gated(self, x):
        gate = torch.sigmoid(x @ self.gate_weight.T)
        return torch.tanh(x @ self.score_weight.T) * gate

    def forward(self, x):
        weights = torch.softmax(self.out(self.attend(x)), dim=1)
        return (weights * x).sum(1), weights.squeeze(-1)


class BagClassifier(nn.Module):
    def __init__(self, cell=20, dim=32, classes=3):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(cell, dim), nn.ReLU(), nn.LayerNorm(dim))
        self.pool = GatedPool(dim, 16)
        self.head = nn.Linear(dim, classes)

    def forward(self, bags):
        pooled, weights = self.pool(self.encode(bags))
        return self.head(pooled), weights


def bags(n, size=9):
    y = torch.randint(0, 3, (n,))
    return torch.randn(n, size, 20) + y[:, None, None], y


def main():
    torch.manual_seed(0)
    model = nn.DataParallel(BagClassifier().to("cuda:0"), device_ids=[0, 1])
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        x, y = bags(8)
        logits, weights = model(x.to("cuda:0"))
        loss = nn.functional.cross_entropy(logits, y.to("cuda:0"))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4), tuple(weights.shape))


if __name__ == "__main__":
    main()
