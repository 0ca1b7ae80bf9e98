# cause: optimizer-built-before-move|optimizer-state-on-other-device
# guilty: m
import torch
from torch import nn


class Lamb:
    def __init__(self, params, lr=1e-2, betas=(0.9, 0.99), eps=1e-6, wd=0.01):
        self.params = [p for p in params if p.requires_grad]
        self.lr, self.betas, self.eps, self.wd = lr, betas, eps, wd
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]
        self.t = 0

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        for p, m, v in zip(self.params, self.m, self.v):
            if p.grad is None:
                continue
            m.mul_(b1).add_(p.grad, alpha=1 - b1)
            v.mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
            upd = (m / (1 - b1 ** self.t)) / ((v / (1 - b2 ** self.t)).sqrt() + self.eps) + self.wd * p
            trust = (p.norm() / upd.norm().clamp(min=1e-8)).clamp(0.1, 10)
            p.sub_(self.lr * trust * upd)


class Tagger(nn.Module):
    def __init__(self, vocab=50, d=24, tags=5):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.lstm = nn.LSTM(d, d, bidirectional=True, batch_first=True)
        self.out = nn.Linear(2 * d, tags)

    def forward(self, ids):
        return self.out(self.lstm(self.emb(ids))[0])


class Experiment:
    def __init__(self, **hp):
        self.hp = {"lr": 5e-3, "steps": 4, "device": "cuda", **hp}
        self.model = Tagger()
        self.opt = Lamb(self.model.parameters(), lr=self.hp["lr"])

    def batch(self):
        ids = torch.randint(0, 50, (8, 11))
        return ids.to(self.hp["device"]), (ids % 5).to(self.hp["device"])

    def run(self):
        self.model.to(self.hp["device"])
        for i in range(self.hp["steps"]):
            ids, tags = self.batch()
            loss = nn.functional.cross_entropy(self.model(ids).transpose(1, 2), tags)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            print(i, loss.item())


Experiment(lr=1e-2).run()
