# cause: metric-state-device|tensor-created-on-wrong-device
# guilty: self.tp (guess & target)
# line: 25
# repair: in Evaluation.run place the metric on the card of the logits it is fed (sweep.to("cuda:1"), the head's card, instead of that of the model's first parameter) OR in ThresholdSweep.update move probs to self.tp.device first (probs = probs.to(self.tp.device))
"""Tune the decision threshold of a multi-label tagger that runs over two cards."""
import torch
from torch import nn


class ThresholdSweep:
    def __init__(self, labels, steps=9):
        self.cuts = torch.linspace(0.1, 0.9, steps)
        self.tp = torch.zeros(steps, labels)
        self.fp = torch.zeros(steps, labels)
        self.fn = torch.zeros(steps, labels)

    def to(self, device):
        for name in ("tp", "fp", "fn"):
            setattr(self, name, getattr(self, name).to(device))
        return self

    def update(self, probs, target):
        target = target.to(probs.device).bool()
        guess = torch.stack([probs > cut for cut in self.cuts.tolist()])
        self.tp += (guess & target).sum(1)
        self.fp += (guess & ~target).sum(1)
        self.fn += (~guess & target).sum(1)

    def compute(self):
        f1 = 2 * self.tp / (2 * self.tp + self.fp + self.fn).clamp(min=1)
        best = f1.argmax(0)
        return self.cuts[best.cpu()], f1.amax(0).mean().item()


class Tagger(nn.Module):
    def __init__(self, features=20, dim=32, labels=5, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.cards = cards
        self.body = nn.Sequential(nn.Linear(features, dim), nn.GELU(), nn.Linear(dim, dim)).to(cards[0])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, labels)).to(cards[1])

    def forward(self, x):
        h = self.body(x.to(self.cards[0]))
        return self.head(h.to(self.cards[1]))


class Evaluation:
    def __init__(self, model, labels):
        self.model, self.labels = model.eval(), labels

    @torch.no_grad()
    def run(self, loader):
        sweep = ThresholdSweep(self.labels).to(next(self.model.parameters()).device)
        for x, y in loader:
            sweep.update(self.model(x).sigmoid(), y)
        return sweep.compute()


if __name__ == "__main__":
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(48, 20), torch.randint(0, 2, (48, 5)))
    cuts, score = Evaluation(Tagger(), 5).run(torch.utils.data.DataLoader(data, batch_size=16))
    print([round(c, 1) for c in cuts.tolist()], round(score, 3))
