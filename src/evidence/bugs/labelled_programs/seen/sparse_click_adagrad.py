# cause: optimizer-built-before-move
# guilty: optimizer
"""Click-through model with hashed features, trained with Adagrad."""
import torch
from torch import nn

BUCKETS, FIELDS = 500, 6


class FactorisationMachine(nn.Module):
    def __init__(self, k=8):
        super().__init__()
        self.linear = nn.Embedding(BUCKETS, 1)
        self.factors = nn.Embedding(BUCKETS, k)
        self.bias = nn.Parameter(torch.zeros(1))
        nn.init.normal_(self.factors.weight, std=0.05)

    def forward(self, idx):
        v = self.factors(idx)
        pair = 0.5 * (v.sum(1).pow(2) - v.pow(2).sum(1)).sum(1)
        return self.bias + self.linear(idx).sum((1, 2)) + pair


def hashed(n, gen):
    raw = torch.randint(0, 10_000, (n, FIELDS), generator=gen)
    idx = (raw * torch.tensor([31, 37, 41, 43, 47, 53])) % BUCKETS
    click = ((raw[:, 0] % 3 == 0) | (raw[:, 1] % 5 == 0)).float()
    return idx, click


def auc(score, y):
    pos, neg = score[y > 0.5], score[y < 0.5]
    return (pos[:, None] > neg[None]).float().mean().item()


class Experiment:
    def __init__(self, lr=0.1):
        self.model = FactorisationMachine()
        self.optimizer = torch.optim.Adagrad(self.model.parameters(), lr=lr, foreach=False)
        self.loss = nn.BCEWithLogitsLoss()
        self.device = torch.device("cpu")

    def to(self, device):
        self.device = torch.device(device)
        self.model.to(self.device)
        self.loss.to(self.device)
        return self

    def fit(self, steps, gen):
        optimizer = self.optimizer
        for _ in range(steps):
            idx, click = (t.to(self.device) for t in hashed(128, gen))
            loss = self.loss(self.model(idx), click)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    @torch.no_grad()
    def score(self, gen):
        idx, click = hashed(256, gen)
        return auc(self.model(idx.to(self.device)).cpu(), click)


if __name__ == "__main__":
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(5)
    exp = Experiment().to("cuda:0")
    print("auc before", exp.score(gen))
    print("loss", exp.fit(10, gen))
    print("auc after", exp.score(gen))
