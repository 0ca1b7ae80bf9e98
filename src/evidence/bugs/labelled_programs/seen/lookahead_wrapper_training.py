# cause: optimizer-built-before-move
# guilty: q.data (q or self.slow_weights)
# after: lonePatient/lookahead_pytorch#2, lessw2020/Ranger-Deep-Learning-Optimizer#1
import itertools
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn

class Lookahead(torch.optim.Optimizer):
    def __init__(self, base_optimizer, k=3, alpha=0.5):
        self.optimizer = base_optimizer
        self.param_groups = base_optimizer.param_groups
        self.defaults = base_optimizer.defaults
        self.state = defaultdict(dict)
        self.alpha, self.k, self.counter = alpha, k, 0
        self.slow_weights = [[p.clone().detach() for p in g["params"]] for g in self.param_groups]
        for w in itertools.chain(*self.slow_weights):
            w.requires_grad = False

    def zero_grad(self, set_to_none=True):
        self.optimizer.zero_grad(set_to_none)

    def step(self, closure=None):
        loss = self.optimizer.step()
        self.counter += 1
        if self.counter % self.k == 0:
            for group, slow in zip(self.param_groups, self.slow_weights):
                for p, q in zip(group["params"], slow):
                    if p.grad is None:
                        continue
                    q.data.add_(p.data - q.data, alpha=self.alpha)
                    p.data.copy_(q.data)
        return loss

class TextClassifier(nn.Module):
    def __init__(self, vocab=100, dim=24, classes=5):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim)
        self.fc = nn.Linear(dim, classes)

    def forward(self, ids):
        return self.fc(self.bag(ids))

class Experiment:
    def __init__(self, args):
        self.model = TextClassifier()
        self.optimizer = Lookahead(torch.optim.SGD(self.model.parameters(), lr=0.1))
        self.device = torch.device(args["device"])
        self.model.to(self.device)

    def epoch(self, loader):
        total = 0.0
        for ids, y in loader:
            ids, y = ids.to(self.device), y.to(self.device)
            loss = F.cross_entropy(self.model(ids), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(loader)

if __name__ == "__main__":
    loader = [(torch.randint(0, 100, (16, 9)), torch.randint(0, 5, (16,))) for _ in range(5)]
    exp = Experiment({"device": "cuda"})
    print([exp.epoch(loader) for _ in range(2)])
