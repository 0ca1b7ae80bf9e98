# cause: optimizer-state-on-other-device
# guilty: self._slot(n, g)
import torch
import torch.nn as nn
import torch.nn.functional as F


class ClippedAccumulator:
    """Clips the gradient of every micro batch and sums what is left."""

    def __init__(self, named, limit=1.0):
        self.named = dict(named)
        self.limit = limit
        self.store = {}
        self.n = 0

    def _slot(self, name, p):
        if name not in self.store:
            self.store[name] = torch.zeros(p.shape, dtype=p.dtype)
        return self.store[name]

    def absorb(self):
        grads = {n: p.grad for n, p in self.named.items() if p.grad is not None}
        norm = torch.stack([g.norm() for g in grads.values()]).norm().item()
        factor = min(1.0, self.limit / (norm + 1e-6))
        for n, g in grads.items():
            self._slot(n, g).add_(g, alpha=factor)
            self.named[n].grad = None
        self.n += 1

    def release(self):
        for n, acc in self.store.items():
            self.named[n].grad = acc.div(self.n)
        self.store, self.n = {}, 0


class Readmission(nn.Module):
    def __init__(self, codes=40, d=16):
        super().__init__()
        self.codes = nn.EmbeddingBag(codes, d, mode="mean")
        self.vitals = nn.Linear(6, d)
        self.out = nn.Linear(2 * d, 1)

    def forward(self, codes, vitals):
        h = torch.cat([self.codes(codes), torch.tanh(self.vitals(vitals))], -1)
        return self.out(h).squeeze(-1)


def patients(n, device):
    codes = torch.randint(0, 40, (n, 7), device=device)
    vitals = torch.randn(n, 6, device=device)
    return codes, vitals, (vitals[:, 0] + (codes[:, 0] > 20) > 0.5).float()


def main():
    torch.manual_seed(1)
    device = torch.device("cuda:0")
    model = Readmission().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    acc = ClippedAccumulator(model.named_parameters())
    for step in range(4):
        for _ in range(4):
            codes, vitals, y = patients(8, device)
            loss = F.binary_cross_entropy_with_logits(model(codes, vitals), y)
            loss.backward()
            acc.absorb()
        acc.release()
        opt.step()
        opt.zero_grad()
        print(step, loss.item())


if __name__ == "__main__":
    main()
