# cause: optimizer-built-before-move
# guilty: slow (self.slow[i] or self.slow)
"""Lookahead around any optimiser, used for keyword spotting."""
import torch
from torch import nn


class Lookahead:
    def __init__(self, base, k=2, alpha=0.5):
        self.base, self.k, self.alpha, self.n = base, k, alpha, 0
        self.fast = [p for g in base.param_groups for p in g["params"]]
        self.slow = [p.detach().clone() for p in self.fast]

    def zero_grad(self):
        self.base.zero_grad()

    @torch.no_grad()
    def step(self):
        self.base.step()
        self.n += 1
        if self.n % self.k:
            return
        for slow, fast in zip(self.slow, self.fast):
            slow.add_(fast - slow, alpha=self.alpha)
            fast.copy_(slow)


class KWS(nn.Module):
    def __init__(self, n_mels=40, words=12):
        super().__init__()
        self.dw = nn.Conv1d(n_mels, n_mels, 9, padding=4, groups=n_mels)
        self.pw = nn.Conv1d(n_mels, 64, 1)
        self.out = nn.Linear(64, words)

    def forward(self, mel):
        return self.out(torch.relu(self.pw(self.dw(mel))).mean(-1))


def setup(args):
    model = KWS()
    optimizer = Lookahead(torch.optim.RAdam(model.parameters(), lr=args["lr"]))
    return model, optimizer


def main(args):
    model, optimizer = setup(args)
    model.to(args["device"])
    model.train()
    for _ in range(4):
        mel = torch.randn(8, 40, 98, device=args["device"])
        word = torch.randint(0, 12, (8,), device=args["device"])
        loss = nn.functional.cross_entropy(model(mel), word)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main({"lr": 1e-3, "device": "cuda:1"})
